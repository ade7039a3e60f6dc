import math

import pytest

from dptransfer_lab.results import frame_of
from dptransfer_lab.statistics import mean_of, one_per_seed, summarise

from .synthetic import record

CUT = {"rows": None, "classes": None, "pool_rows": None, "dimension": None}


def cells(*accuracies, **more):
    return [record(seed=seed, balanced=value, **more) for seed, value in enumerate(accuracies)]


def rows(records, *given, **more):
    return summarise(frame_of(records), *given, **more).to_dict("records")


def test_a_group_has_its_mean_interval_and_quartiles():
    (row,) = rows(cells(0.4, 0.5, 0.6, 0.7))
    assert (row["n"], row["mean"], row["low"], row["high"]) == pytest.approx(mean_of([0.4, 0.5, 0.6, 0.7]))
    assert (row["q25"], row["median"], row["q75"]) == pytest.approx((0.475, 0.55, 0.625))


def test_an_interval_ends_where_the_number_can():
    (row,) = rows(cells(0.1, 0.9))
    assert 0 <= row["low"] < row["high"] <= 1
    (row,) = rows([record(seconds=1.0), record(seed=1, seconds=9.0)], "fit_seconds")
    assert row["low"] == 0.0
    assert row["high"] > 9.0


def test_one_seed_has_no_interval():
    (row,) = rows(cells(0.5))
    assert row["n"] == 1
    assert math.isnan(row["low"])


def test_seeds_of_one_group_are_summed_up():
    (row,) = rows([*cells(0.5, 0.7), record(seed=2, status="refused", message="no pool")])
    assert row["n"] == 2
    assert row["mean"] == pytest.approx(0.6)
    assert row["message"] == "no pool"


def test_a_group_without_a_result_still_has_its_row():
    failed = record("public", status="failed", rows=None, pool=None, extra={"cut": CUT})
    one, other = rows([*cells(0.5), failed])
    assert (one["label"], one["n"]) == ("mean", 1)
    assert (other["label"], other["n"]) == ("public", 0)
    assert math.isnan(other["mean"])


def test_two_versions_of_one_cell_count_once():
    frame = frame_of([record(balanced=0.1), record(balanced=0.9)])
    assert list(one_per_seed(frame)["balanced_accuracy"]) == [0.9]
    assert list(summarise(frame)["n"]) == [1]


def test_sizes_come_from_a_cell_that_came_to_an_end():
    failed = record(status="failed", rows=None, extra={"cut": CUT})
    (row,) = rows([failed, record(seed=1, extra={"cut": CUT})])
    assert row["rows"] == 4000


def test_other_groups_may_be_asked_for():
    found = rows([*cells(0.5, 0.7), *cells(0.1, 0.3, label="b")], by=["data"])
    assert [row["mean"] for row in found] == [pytest.approx(0.4)]
