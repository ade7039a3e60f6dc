"""The card's two drawings: SVG in the page's colours, with tables that say the same."""

from __future__ import annotations

from dptransfer.base.document import Figure, Table
from dptransfer.base.document_html import escape_html
from dptransfer.privacy import rounded_up

_SIDE, _LEFT, _TOP = 260.0, 46.0, 10.0
_LONGEST_NAME = 20
_BAR = 30
_TEXT = 'fill="var(--soft)"'


def attack_curve(points: tuple[tuple[float, float], ...]) -> Figure:
    """True against false positive rate, both from 0 to 1, with the diagonal of pure guessing."""
    line = " ".join(f"{_x(alarm):.1f},{_y(found):.1f}" for alarm, found in points)
    ticks = "".join(
        f'<line stroke="var(--line)" x1="{_x(0):.0f}" x2="{_x(1):.0f}" y1="{_y(at):.0f}" y2="{_y(at):.0f}"/>'
        f'<text {_TEXT} x="{_LEFT - 6:.0f}" y="{_y(at) + 4:.0f}" text-anchor="end">{at:.0%}</text>'
        f'<text {_TEXT} x="{_x(at):.0f}" y="{_y(0) + 16:.0f}" text-anchor="middle">{at:.0%}</text>'
        for at in (0, 0.25, 0.5, 0.75, 1)
    )
    drawing = (
        f'<polygon fill="var(--tint)" points="{_x(0):.1f},{_y(0):.1f} {line}"/>{ticks}'
        f'<line stroke="var(--soft)" stroke-dasharray="4 4" '
        f'x1="{_x(0):.1f}" y1="{_y(0):.1f}" x2="{_x(1):.1f}" y2="{_y(1):.1f}"/>'
        f'<polyline fill="none" stroke="var(--accent)" stroke-width="2.5" points="{line}"/>'
        f'<text {_TEXT} x="{_x(0.5):.0f}" y="{_y(0) + 34:.0f}" text-anchor="middle">false alarms</text>'
        f'<text {_TEXT} transform="translate(10 {_y(0.5):.0f}) rotate(-90)" text-anchor="middle">'
        "members found</text>"
    )
    told = [point for n, point in enumerate(points) if n % 4 == 0 or n == len(points) - 1]
    return Figure(
        "attack-curve",
        _svg(_LEFT + _SIDE + 24, _TOP + _SIDE + 40, drawing),
        alt="Members found at most, against false alarms",
        caption="The best possible attack (line) against guessing (dashes): the closer, the less it learns.",
        instead=Table(
            ("False alarms", "Members found, at most"),
            tuple((f"{100 * alarm:.3g}%", f"{rounded_up(100 * found, 3)}%") for alarm, found in told),
            align="rr",
        ),
    )


def recall_bars(bars: tuple[tuple[str, float, float, float], ...]) -> Figure:
    """One horizontal bar per class, with the interval of its recall: name, recall, low, high."""
    left, span, step = 136.0, 220.0, 22.0
    parts = []
    for row, (name, value, low, high) in enumerate(bars):
        top = 4 + row * step
        middle = top + 7
        shown = escape_html(name if len(name) <= _LONGEST_NAME else name[: _LONGEST_NAME - 1] + "…")
        box = f'x="{left:.0f}" y="{top:.0f}" height="14" rx="3"'
        parts.append(
            f"<g><title>{escape_html(name)}</title>"
            f'<text {_TEXT} x="{left - 8:.0f}" y="{middle + 4:.0f}" text-anchor="end">{shown}</text>'
            f'<rect fill="var(--tint)" {box} width="{span:.0f}"/>'
            f'<rect fill="var(--accent)" {box} width="{span * value:.1f}"/>'
            f'<line stroke="var(--ink)" stroke-width="1.3" x1="{left + span * low:.1f}" '
            f'x2="{left + span * high:.1f}" y1="{middle:.0f}" y2="{middle:.0f}"/>'
            f'<text {_TEXT} x="{left + span + 8:.0f}" y="{middle + 4:.0f}">{value:.1%}</text></g>'
        )
    return Figure(
        "recall",
        _svg(left + span + 52, 8 + len(bars) * step, "".join(parts)),
        alt="Recall of each class",
        caption="Recall of each class, with its 95% interval.",
        instead=Table(
            ("Class", "Recall", "95% interval", ""),
            tuple(
                (name, f"{value:.1%}", f"{low:.1%} to {high:.1%}", "█" * round(_BAR * value))
                for name, value, low, high in bars
            ),
            align="lrr",
        ),
    )


def _svg(width: float, height: float, inside: str) -> str:
    size = f'viewBox="0 0 {width:.0f} {height:.0f}" width="{1.2 * width:.0f}"'
    return f'<svg {size} font-size="11">{inside}</svg>'


def _x(share: float) -> float:
    return _LEFT + _SIDE * share


def _y(share: float) -> float:
    return _TOP + _SIDE * (1 - share)
