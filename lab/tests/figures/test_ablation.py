import pytest

from dptransfer_lab.figures.best import ablation
from dptransfer_lab.figures.style import styles_of
from dptransfer_lab.statistics import interval

from ..synthetic import cells, grid, record


def variants():
    return [
        record("adamix", label=label, epsilon=epsilon, seed=seed, balanced=value + 0.01 * seed, shots=5)
        for label, value in (("whole", 0.8), ("without projection", 0.7))
        for epsilon in (0.5, 1.0, 2.0, 4.0)
        for seed in range(3)
    ]


def drawn(records, **more):
    frame = cells(records)
    return ablation(frame, styles_of(frame), **more)


def test_bars_are_means_with_their_interval():
    (made,) = drawn(variants())
    panels = made.figure.axes
    assert [axes.get_title(loc="left") for axes in panels] == ["ε = 0.5", "ε = 1", "ε = 4"]
    widths = {patch.get_label(): patch.get_width() for patch in panels[0].patches}
    assert widths == {"whole": pytest.approx(0.81), "without projection": pytest.approx(0.71)}
    whiskers = [sorted(x for x in line.get_xdata() if x == x) for line in panels[0].lines]
    low, high = interval([0.8, 0.81, 0.82])
    assert any(x[0] == pytest.approx(low) and x[-1] == pytest.approx(high) for x in whiskers)
    assert [text.get_text() for text in panels[0].get_yticklabels()] == ["whole", "without projection"]
    assert [text.get_text().strip() for text in panels[0].texts] == ["81.0", "71.0"]
    assert "95 % interval" in made.caption
    assert "5 public shots" in made.caption


def test_errors_turn_the_bars_round():
    (made,) = drawn(variants(), error=True)
    assert made.figure.axes[0].patches[0].get_width() == pytest.approx(0.19)


def test_one_label_is_no_comparison():
    assert drawn(grid(("mean",))) == []


def test_a_label_without_a_result_at_a_budget_says_so():
    records = [r for r in variants() if not (r["label"] == "whole" and r["budget"]["epsilon"] == 0.5)]
    (made,) = drawn(records)
    first, second = ([text.get_text().strip() for text in axes.texts] for axes in made.figure.axes[:2])
    assert first == ["no result", "71.0"]
    assert "no result" not in second
    assert [patch.get_label() for patch in made.figure.axes[0].patches] == ["without projection"]
