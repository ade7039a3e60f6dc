import numpy as np
import pytest

from dptransfer_lab import compare
from dptransfer_lab.results import frame_of

from .synthetic import record as synthetic


def record(seed, accuracy, *, fit=1.0, **more):
    return synthetic(seed=seed, balanced=accuracy, seconds=fit, **more)


def compare_runs(first, second, **given):
    return compare.compare_runs(frame_of(first), frame_of(second), **given)


def runs(gap=0.0, spread=0.02, seeds=8, labels=("a", "b", "c"), shift_of="a", other_seeds=False):
    rng = np.random.default_rng(1)
    first, second = [], []
    for label in labels:
        for seed in range(seeds):
            base = 0.6 + rng.normal(0, 0.1)
            first.append(record(seed, base, label=label))
            moved = base + rng.normal(0, spread) + (gap if label == shift_of else 0.0)
            second.append(record(seed + 100 * other_seeds, moved, label=label))
    return first, second


def test_the_same_run_has_no_change():
    first, _ = runs()
    found = compare_runs(first, first)
    assert not found.changed
    assert {change.p for change in found.shared} == {1.0}


def test_a_shift_smaller_than_the_spread_over_seeds_is_seen_when_paired():
    found = compare_runs(*runs(gap=0.06))
    (change,) = found.changed
    assert change.where["label"] == "a"
    assert change.after - change.before == pytest.approx(0.06, abs=0.02)
    assert found.shared[0] is change
    assert "paired" in change.test


def test_the_same_shift_is_lost_when_seeds_do_not_pair():
    found = compare_runs(*runs(gap=0.06, other_seeds=True))
    assert not found.changed
    assert {change.test for change in found.shared} == {"Welch's test"}
    assert compare_runs(*runs(gap=0.5, other_seeds=True)).changed


def test_many_groups_without_a_change_raise_no_alarm():
    found = compare_runs(*runs(labels=tuple(f"m{place}" for place in range(100))))
    assert min(change.p for change in found.shared) < 0.05  # without the correction there would be alarms
    assert not found.changed


def test_one_seed_tells_nothing_about_noise():
    found = compare_runs([record(0, 0.5)], [record(0, 0.6)])
    assert found.shared[0].p is None
    assert not found.changed
    assert compare_runs([record(0, 0.5)], [record(0, 0.5)]).shared[0].p == 1.0
    same = ([record(seed, value) for seed in range(3)] for value in (0.5, 0.25))
    assert [change.p for change in compare_runs(*same).changed] == [0.0]  # the same shift in every seed


def test_what_is_in_one_run_only_is_listed():
    found = compare_runs(
        [record(0, 0.5), record(0, 0.5, label="b")], [record(0, 0.5), record(0, 0.5, label="c")]
    )
    assert [where["label"] for where in found.only_first] == ["b"]
    assert [where["label"] for where in found.only_second] == ["c"]
    found = compare_runs([record(0, 0.5)], [record(0, None, status="refused")])
    assert [(before, after) for _, before, after in found.other_status] == [("done", "refused")]


def test_costs_can_be_compared_and_other_data_are_noticed():
    first = [record(seed, 0.5, fit=1.0 + 0.01 * seed) for seed in range(4)]
    second = [record(seed, 0.5, fit=2.0) for seed in range(4)]
    second = [{**one, "made": {**one["made"], "data_fingerprint": "ef" * 32}} for one in second]
    (change,) = compare_runs(first, second, metric="fit_seconds").changed
    assert not change.same_data


def test_other_settings_under_the_same_label_are_told():
    first = [record(seed, 0.5 + 0.01 * seed, settings={"k": 3, "axes": 64}) for seed in range(3)]
    second = [{**one, "settings": {"k": 5, "axes": 64, "new": 0.1}} for one in first]
    assert compare_runs(first, second).shared[0].other_settings == ("k", "new")
    assert compare_runs(first, first).shared[0].other_settings == ()
