import pytest

from dptransfer_lab.figures.boost import boost_of, boosts, performance_boost
from dptransfer_lab.figures.style import styles_of

from ..synthetic import record

ERRORS = {"only-public": (0.40, 0.30), "as-published-paragon": (0.20, 0.20), "adamix": (0.25, 0.22)}


def mixed(**changed):
    errors = {**ERRORS, **changed}
    return [
        record(method, epsilon=3.0, shots=shots, seed=seed, rows=4000 - shots, balanced=1 - values[place])
        for method, values in errors.items()
        for place, shots in enumerate((2, 10))
        for seed in range(3)
    ]


def test_the_boost_is_the_papers_ratio():
    assert boost_of(0.4, 0.2, 0.25) == 4.0
    assert boost_of(0.4, 0.2, 0.4) == 1.0
    assert boost_of(0.4, 0.2, 0.2) is None
    assert boost_of(0.4, 0.2, 0.1) is None


def test_each_seed_is_compared_with_its_own_references():
    found = boosts(mixed())
    assert found["adamix", 2, 3.0]["median"] == pytest.approx(4.0)
    assert found["adamix", 10, 3.0]["median"] == pytest.approx(5.0)
    assert found["adamix", 2, 3.0]["n"] == 3
    assert set(found) == {("adamix", 2, 3.0), ("adamix", 10, 3.0)}


def test_the_figure_has_shots_below_and_one_line_per_method():
    records = mixed()
    (made,) = performance_boost(records, styles_of(records))
    axes = made.figure.axes[0]
    line = next(line for line in axes.lines if line.get_gid() == "line-adamix")
    assert line.get_xdata().tolist() == [2, 10]
    assert line.get_ydata() == pytest.approx([4.0, 5.0])
    assert "no better than the public shots alone" in made.caption


def test_fits_as_good_as_without_privacy_are_left_out_and_counted():
    records = [*mixed(), *(r for r in mixed(ngd=(0.19, 0.25)) if r["method"] == "ngd")]
    (made,) = performance_boost(records, styles_of(records))
    assert "Left out" not in made.caption  # 'ngd' has no value at 2 shots at all
    records[-1] = {**records[-1], "metrics": {**records[-1]["metrics"], "accuracy": 0.81}}
    (made,) = performance_boost(records, styles_of(records))
    assert "Left out: 1 fits" in made.caption


def test_without_references_there_is_no_boost():
    records = [r for r in mixed() if r["method"] != "as-published-paragon"]
    assert performance_boost(records, styles_of(records)) == []
