import math

import pytest

from dptransfer_lab.results import frame_of
from dptransfer_lab.summary import one_per_seed, over_seeds, summarise

from .synthetic import record


def cells(*accuracies, **more):
    return [record(seed=seed, balanced=value, **more) for seed, value in enumerate(accuracies)]


def test_the_interval_is_students():
    found = over_seeds([0.1, 0.2, 0.3, 0.4])
    deviation = math.sqrt(sum((x - 0.25) ** 2 for x in (0.1, 0.2, 0.3, 0.4)) / 3)
    reach = 3.182446305284263 * deviation / 2  # t at 3 degrees
    assert found["high"] - found["mean"] == pytest.approx(reach)
    assert found["median"] == pytest.approx(0.25)
    assert found["quantiles"]["0.25"] == pytest.approx(0.175)
    (row,) = summarise(frame_of(cells(0.4, 0.5, 0.6, 0.7))).to_dict("records")
    assert (row["low"], row["high"]) == (pytest.approx(0.55 - reach), pytest.approx(0.55 + reach))
    assert (row["q25"], row["median"]) == (pytest.approx(0.475), pytest.approx(0.55))


def test_an_interval_ends_where_the_number_can():
    (row,) = summarise(frame_of(cells(0.1, 0.9))).to_dict("records")
    assert (row["low"], row["high"]) == (0.0, 1.0)
    (row,) = summarise(frame_of([record(seconds=1.0), record(seed=1, seconds=9.0)]), "fit_seconds").to_dict(
        "records"
    )
    assert row["low"] == 0.0
    assert row["high"] > 9.0


def test_one_seed_has_no_interval():
    found = over_seeds([0.5])
    assert (found["n"], found["low"], found["deviation"]) == (1, None, None)
    (row,) = summarise(frame_of(cells(0.5))).to_dict("records")
    assert row["n"] == 1
    assert math.isnan(row["low"])


def test_seeds_of_one_group_are_summed_up():
    refused = record(seed=2, status="refused", message="no pool")
    (row,) = summarise(frame_of([*cells(0.5, 0.7), refused])).to_dict("records")
    assert row["n"] == 2
    assert row["mean"] == pytest.approx(0.6)
    assert row["message"] == "no pool"


def test_a_group_without_a_result_still_has_its_row():
    cut = {"rows": None, "classes": None, "pool_rows": None, "dimension": None}
    failed = record("public", status="failed", rows=None, pool=None, extra={"cut": cut})
    (one, other) = summarise(frame_of([*cells(0.5), failed])).to_dict("records")
    assert (one["label"], one["n"]) == ("mean", 1)
    assert (other["label"], other["n"]) == ("public", 0)
    assert math.isnan(other["mean"])


def test_two_versions_of_one_cell_count_once():
    frame = frame_of([record(balanced=0.1), record(balanced=0.9)])
    assert list(one_per_seed(frame)["balanced_accuracy"]) == [0.9]
    assert list(summarise(frame)["n"]) == [1]


def test_sizes_come_from_a_cell_that_came_to_an_end():
    cut = {"rows": None, "classes": None, "pool_rows": None, "dimension": None}
    failed = record(status="failed", rows=None, extra={"cut": cut})
    (row,) = summarise(frame_of([failed, record(seed=1, extra={"cut": cut})])).to_dict("records")
    assert row["rows"] == 4000


def test_other_groups_may_be_asked_for():
    frame = frame_of([*cells(0.5, 0.7), *cells(0.1, 0.3, label="b")])
    assert list(summarise(frame, by=["data"])["mean"]) == [pytest.approx(0.4)]
