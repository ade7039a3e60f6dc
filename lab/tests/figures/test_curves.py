import math

import numpy as np
import pandas as pd
import pytest

from dptransfer.privacy import Unit
from dptransfer_lab.explore import Outlook
from dptransfer_lab.figures.curves import attack_trade, boosts, curves, performance_boost, predicted_curve
from dptransfer_lab.figures.style import styles_of
from dptransfer_lab.points import axis_rho
from dptransfer_lab.statistics import interval

from ..synthetic import cells, grid, record

EPSILONS = (0.1, 0.5, 1.0, 4.0)


def drawn(records, draw=curves, **options):
    frame = cells(records)
    return draw(frame, styles_of(frame), **options)


def lines_of(axes):
    return {line.get_label(): line for line in axes.lines if line.get_label()[0] != "_"}


def titles(made):
    return [axes.get_title(loc="left") for axes in made.figure.axes]


def test_lines_are_means_and_bands_are_their_intervals():
    records = grid(epsilons=EPSILONS)
    (made,) = drawn(records)
    (axes,) = made.figure.axes
    line = lines_of(axes)["mean"]
    own = [record for record in records if record["label"] == "mean"]
    values = [
        [r["metrics"]["balanced_accuracy"] for r in own if r["budget"]["epsilon"] == e] for e in EPSILONS
    ]
    assert line.get_xdata().tolist() == list(EPSILONS)
    assert line.get_ydata() == pytest.approx(np.mean(values, axis=1))
    band = axes.collections[list(lines_of(axes)).index("mean")].get_paths()[0].vertices[:, 1]
    low, high = np.array([interval(some) for some in values]).T
    assert band.min() == pytest.approx(low.min())
    assert band.max() == pytest.approx(high.max())
    assert "mean over seeds" in made.caption


def test_the_upper_axis_is_rho_at_the_same_ticks():
    (made,) = drawn(grid(epsilons=EPSILONS))
    (lower,) = made.figure.axes
    (upper,) = lower.child_axes
    made.figure.draw_without_rendering()
    assert lower.get_xlim() == upper.get_xlim()
    assert lower.get_xticks().tolist() == upper.get_xticks().tolist() == list(EPSILONS)
    shown = [float(label.get_text()) for label in upper.get_xticklabels()]
    expected = [axis_rho(e, None, None, 1e-5) for e in EPSILONS]
    assert shown == pytest.approx(expected, rel=0.06)
    assert shown != pytest.approx(list(EPSILONS), rel=0.06)


def test_one_panel_per_ratio_with_the_same_scale():
    (made,) = drawn(grid(imbalance=[1.0, 10.0, 50.0]), over="imbalance")
    assert titles(made) == [f"imbalance ratio {r}" for r in (1, 10, 50)]
    assert len({axes.get_ylim() for axes in made.figure.axes}) == 1
    assert (
        len({tuple(lines_of(axes)["mean"].get_ydata()) for axes in made.figure.axes}) == 3
    )  # each its own cells
    (made,) = drawn(grid(imbalance=[1.0, 10.0]), metric="minority_accuracy", over="imbalance")
    assert titles(made) == ["imbalance ratio 10"]  # the other has no minority
    other = grid(data="birds", classes=20, dimension=8, rows=70)
    (made,) = drawn([*grid(data="flowers"), *other], over="data")
    assert titles(made) == ["birds", "flowers"]


def attacked(auc=0.55):
    return [
        record("adamix", epsilon=e, seed=s, balanced=0.6 + 0.05 * e, auc=auc and auc + 0.01 * e)
        for e in (1.0, 2.0, 4.0)
        for s in range(2)
    ]


def test_an_attack_line_goes_through_the_means_of_error_and_area():
    (made,) = drawn(attacked(), attack_trade)
    axes = made.figure.axes[0]
    line = lines_of(axes)["adamix"]
    assert line.get_xdata() == pytest.approx([0.35, 0.30, 0.20])
    assert line.get_ydata() == pytest.approx([0.56, 0.57, 0.59])
    assert {text.get_text() for text in axes.texts} == {"ε 1", "ε 4"}
    assert "coin toss" in made.caption
    assert drawn(attacked(auc=None), attack_trade) == []


ERRORS = {"only-public": (0.40, 0.30), "as-published-paragon": (0.20, 0.20), "adamix": (0.25, 0.22)}


def mixed(**changed):
    errors = {**ERRORS, **changed}
    return [
        record(method, epsilon=3.0, shots=shots, seed=seed, rows=4000 - shots, balanced=1 - values[place])
        for method, values in errors.items()
        for place, shots in enumerate((2, 10))
        for seed in range(3)
    ]


def test_the_boost_is_the_papers_ratio_of_mean_errors():
    found = boosts(cells(mixed()))
    assert dict(zip(found["shots"], found["boost"], strict=True)) == {2: 4.0, 10: 5.0}
    assert set(found["label"]) == {"adamix"}
    records = mixed()
    records[-1] = record("adamix", epsilon=3.0, shots=10, seed=2, rows=3990, balanced=0.75)
    after = boosts(cells(records)).set_index("shots")["boost"]
    assert after[10] == pytest.approx(0.1 / 0.03)
    useless, perfect = boosts(cells(mixed(adamix=(0.40, 0.2))))["boost"]
    assert useless == 1.0
    assert math.isnan(perfect)


def test_a_boost_needs_references_and_a_fit_that_privacy_costs_something():
    (made,) = drawn(mixed(), performance_boost)
    assert lines_of(made.figure.axes[0])["adamix"].get_ydata() == pytest.approx([4.0, 5.0])
    assert "Left out" not in made.caption
    free = [r for r in mixed(ngd=(0.19, 0.25)) if r["method"] == "ngd"]
    assert "out: 1 as good" in drawn([*mixed(), *free], performance_boost)[0].caption
    assert drawn([r for r in mixed() if r["method"] != "as-published-paragon"], performance_boost) == []


def test_the_boost_of_people_is_not_averaged_with_that_of_rows():
    worse = [{**one, "unit": "person"} for one in mixed(adamix=(0.40, 0.30)) if one["label"] == "adamix"]
    found = boosts(cells([*mixed(), *worse])).set_index(["unit", "shots"])["boost"]
    assert found["row"].tolist() == [4.0, 5.0]
    assert found["person"].tolist() == [1.0, 1.0]


@pytest.mark.parametrize("unit", Unit)
def test_the_curve_is_the_mean_and_says_that_it_is_a_prediction_and_for_whom(unit):
    rows = [("mean", e, share * e, None) for e in (0.5, 1.0, 2.0) for share in (0.1, 0.4, 0.1)]
    rows.append(("public", 1.0, math.nan, "no pool"))
    found = pd.DataFrame(rows, columns=["method", "at_epsilon", "accuracy", "refusal"])
    made = predicted_curve(Outlook(found, "made of dreams", 3, unit))
    axes = made.figure.axes[0]
    line = lines_of(axes)["mean"]
    assert line.get_xdata().tolist() == [0.5, 1.0, 2.0]
    assert line.get_ydata() == pytest.approx([0.1, 0.2, 0.4])
    band = axes.collections[0].get_paths()[0].vertices[:, 1]
    assert (band.min(), band.max()) == (pytest.approx(0.05), pytest.approx(0.8))
    assert "PREDICTION" in [text.get_text() for text in axes.texts]
    assert made.caption.endswith("made of dreams")
    assert "of 3 simulated tasks" in made.caption
    assert all(f"ε for one {unit.words}" in words for words in (axes.get_xlabel(), made.caption))
