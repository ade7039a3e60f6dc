import math

import pytest

from dptransfer_lab.figures.curves import boosts, performance_boost
from dptransfer_lab.figures.style import styles_of

from ..synthetic import cells, record

ERRORS = {"only-public": (0.40, 0.30), "as-published-paragon": (0.20, 0.20), "adamix": (0.25, 0.22)}


def mixed(**changed):
    errors = {**ERRORS, **changed}
    return [
        record(method, epsilon=3.0, shots=shots, seed=seed, rows=4000 - shots, balanced=1 - values[place])
        for method, values in errors.items()
        for place, shots in enumerate((2, 10))
        for seed in range(3)
    ]


def drawn(records):
    frame = cells(records)
    return performance_boost(frame, styles_of(frame))


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


def test_the_figure_has_shots_below_and_one_line_per_method():
    (made,) = drawn(mixed())
    axes = made.figure.axes[0]
    line = next(line for line in axes.lines if line.get_label() == "adamix")
    assert line.get_xdata().tolist() == [2, 10]
    assert line.get_ydata() == pytest.approx([4.0, 5.0])
    assert [label.get_text() for label in axes.get_xticklabels()] == ["2", "10"]
    assert "no better than" in made.caption


def test_fits_as_good_as_without_privacy_are_left_out_and_counted():
    assert "Left out" not in drawn(mixed())[0].caption
    (made,) = drawn([*mixed(), *(r for r in mixed(ngd=(0.19, 0.25)) if r["method"] == "ngd")])
    assert "out: 1 as good" in made.caption


def test_without_references_there_is_no_boost():
    assert drawn([r for r in mixed() if r["method"] != "as-published-paragon"]) == []


def test_the_boost_of_people_is_not_averaged_with_that_of_rows():
    worse = [{**one, "unit": "person"} for one in mixed(adamix=(0.40, 0.30)) if one["label"] == "adamix"]
    found = boosts(cells([*mixed(), *worse])).set_index(["unit", "shots"])["boost"]
    assert found["row"].tolist() == [4.0, 5.0]
    assert found["person"].tolist() == [1.0, 1.0]
