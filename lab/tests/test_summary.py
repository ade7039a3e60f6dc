import math

import pytest

from dptransfer_lab.summary import group_key, grouped, over_seeds, summarise


def record(seed, accuracy, *, status="done", label="a", rows=10, cut=None, fit=1.0, **more):
    return {
        "data": "d", "encoder": "e", "classes": 2, "dimension": 3, "rows": rows, "pool": None, "pool_rows": 0,
        "shots": 0, "imbalance": 1.0, "method": "mean", "label": label, "settings": {}, "seed": seed,
        "budget": {"flavour": "pure", "epsilon": 1.0, "delta": 0.0, "rho": None, "mu": None, "relation": "-"},
        "status": status, "message": None, "guarantee": None,
        "marks": {"oracle_tuned": False, "seeded": True, "not_private": False},
        "metrics": {"balanced_accuracy": accuracy},
        "cost": {"fit_seconds": fit},
        "extra": {} if cut is None else {"cut": cut},
        "made": {"data_fingerprint": "f"},
        **more,
    }  # fmt: skip


def test_the_interval_is_students():
    found = over_seeds([0.1, 0.2, 0.3, 0.4])
    deviation = math.sqrt(sum((x - 0.25) ** 2 for x in (0.1, 0.2, 0.3, 0.4)) / 3)
    assert found["high"] - found["mean"] == pytest.approx(3.182446305284263 * deviation / 2)  # t at 3 degrees
    assert found["median"] == pytest.approx(0.25)
    assert found["quantiles"]["0.25"] == pytest.approx(0.175)


def test_one_seed_has_no_interval():
    found = over_seeds([0.5])
    assert (found["n"], found["low"], found["deviation"]) == (1, None, None)


def test_seeds_of_one_group_are_summed_up():
    (found,) = summarise([record(0, 0.5), record(1, 0.7), record(2, None, status="failed")])
    assert found["seeds"] == [0, 1, 2]
    assert found["status"] == {"done": 2, "refused": 0, "failed": 1}
    assert found["metrics"]["balanced_accuracy"]["mean"] == pytest.approx(0.6)
    assert found["metrics"]["accuracy"] is None
    assert found["cost"]["fit_seconds"]["n"] == 3


def test_a_mark_on_one_seed_marks_the_group():
    marked = record(1, 0.5, marks={"oracle_tuned": True, "seeded": True, "not_private": False})
    (found,) = summarise([record(0, 0.5), marked])
    assert found["marks"]["oracle_tuned"]


def test_groups_differ_by_what_was_asked_for_not_by_what_a_seed_left():
    cut = {"rows": None, "classes": 2, "pool_rows": None, "dimension": None}
    assert group_key(record(0, 0.1, rows=10, cut=cut)) == group_key(record(1, 0.1, rows=12, cut=cut))
    assert group_key(record(0, 0.1, rows=10)) != group_key(record(1, 0.1, rows=12))
    assert group_key(record(0, 0.1)) != group_key(record(0, 0.1, label="b"))


def test_two_versions_of_one_cell_count_once():
    (members,) = grouped([record(0, 0.1), record(0, 0.9)]).values()
    assert [one["metrics"]["balanced_accuracy"] for one in members] == [0.9]


def test_sizes_come_from_a_cell_that_came_to_an_end():
    cut = {"rows": None, "classes": None, "pool_rows": None, "dimension": None}
    (found,) = summarise([record(0, None, status="failed", rows=None, cut=cut), record(1, 0.5, cut=cut)])
    assert found["rows"] == 10
