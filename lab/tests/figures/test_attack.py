import pytest

from dptransfer_lab.figures.attack import attack_trade
from dptransfer_lab.figures.style import styles_of

from ..synthetic import record


def attacked(auc=0.55):
    return [
        record(
            "adamix",
            epsilon=epsilon,
            seed=seed,
            balanced=0.6 + 0.05 * epsilon,
            auc=auc and auc + 0.01 * epsilon,
        )
        for epsilon in (1.0, 2.0, 4.0)
        for seed in range(2)
    ]


def test_a_line_goes_through_the_means_of_error_and_area():
    records = attacked()
    (made,) = attack_trade(records, styles_of(records))
    axes = made.figure.axes[0]
    line = next(line for line in axes.lines if line.get_gid() == "line-adamix")
    assert line.get_xdata() == pytest.approx([35.0, 30.0, 20.0])
    assert line.get_ydata() == pytest.approx([0.56, 0.57, 0.59])
    assert {text.get_text() for text in axes.texts} == {"ε 1", "ε 4"}
    assert "coin toss" in made.caption


def test_without_attacks_there_is_no_figure():
    records = attacked(auc=None)
    assert attack_trade(records, styles_of(records)) == []
