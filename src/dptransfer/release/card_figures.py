"""The card's two drawings, as inline SVG."""

from __future__ import annotations

from html import escape

from dptransfer.release.card import AttackCurve, RecallBars

_SIDE, _LEFT, _TOP = 260.0, 46.0, 10.0
_LONGEST_NAME = 24


def attack_curve(curve: AttackCurve) -> str:
    """True against false positive rate, both from 0 to 1, with the diagonal of pure guessing."""
    points = " ".join(f"{_x(alarm):.1f},{_y(found):.1f}" for alarm, found in curve.points)
    ticks = "".join(
        f'<line class="axis" x1="{_x(0):.0f}" x2="{_x(1):.0f}" y1="{_y(at):.0f}" y2="{_y(at):.0f}"/>'
        f'<text x="{_LEFT - 6:.0f}" y="{_y(at) + 4:.0f}" text-anchor="end">{at:.0%}</text>'
        f'<text x="{_x(at):.0f}" y="{_y(0) + 16:.0f}" text-anchor="middle">{at:.0%}</text>'
        for at in (0, 0.25, 0.5, 0.75, 1)
    )
    width, height = _LEFT + _SIDE + 24, _TOP + _SIDE + 40
    return (
        f'<svg viewBox="0 0 {width:.0f} {height:.0f}" style="max-width:24rem" role="img" '
        'aria-label="Members found at most, against false alarms">'
        f'<polygon class="under" points="{_x(0):.1f},{_y(0):.1f} {points}"/>{ticks}'
        f'<line class="chance" x1="{_x(0):.1f}" y1="{_y(0):.1f}" x2="{_x(1):.1f}" y2="{_y(1):.1f}"/>'
        f'<polyline class="curve" points="{points}"/>'
        f'<text x="{_x(0.5):.0f}" y="{_y(0) + 34:.0f}" text-anchor="middle">false alarms</text>'
        f'<text transform="translate(10 {_y(0.5):.0f}) rotate(-90)" text-anchor="middle">members found</text>'
        "</svg>"
    )


def recall_bars(bars: RecallBars) -> str:
    """One horizontal bar per class with its interval."""
    left, span, step = 170.0, 380.0, 22.0
    parts = []
    for row, (name, value, low, high) in enumerate(bars.rows):
        top = 4 + row * step
        middle = top + 7
        shown = name if len(name) <= _LONGEST_NAME else name[: _LONGEST_NAME - 1] + "…"
        parts.append(
            f"<g><title>{escape(name)}</title>"
            f'<text x="{left - 8:.0f}" y="{middle + 4:.0f}" text-anchor="end">{escape(shown)}</text>'
            f'<rect class="track" x="{left:.0f}" y="{top:.0f}" width="{span:.0f}" height="14" rx="3"/>'
            f'<rect class="bar" x="{left:.0f}" y="{top:.0f}" width="{span * value:.1f}" height="14" rx="3"/>'
            f'<line class="whisker" x1="{left + span * low:.1f}" x2="{left + span * high:.1f}" '
            f'y1="{middle:.0f}" y2="{middle:.0f}"/>'
            f'<text x="{left + span + 8:.0f}" y="{middle + 4:.0f}">{value:.1%}</text></g>'
        )
    height = 8 + len(bars.rows) * step
    return (
        f'<svg viewBox="0 0 {left + span + 60:.0f} {height:.0f}" role="img" '
        'aria-label="Recall of each class">' + "".join(parts) + "</svg>"
    )


def _x(share: float) -> float:
    return _LEFT + _SIDE * share


def _y(share: float) -> float:
    return _TOP + _SIDE * (1 - share)
