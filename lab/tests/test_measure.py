import dataclasses
import json

import numpy as np
import pytest

from dptransfer.data import Columns
from dptransfer.sources import read_private
from dptransfer_lab.as_published import AS_PUBLISHED
from dptransfer_lab.cells import cells_of
from dptransfer_lab.measure import failed_record, measure, sources_of
from dptransfer_lab.results import METRICS
from dptransfer_lab.sources import stored_arrays
from dptransfer_lab.study import parse_study
from dptransfer_lab.tasks import task_of

from .samples import PEOPLE, SMALL

FIELDS = {
    "cell", "study", "data", "encoder", "classes", "dimension", "rows", "pool", "pool_rows", "shots",
    "imbalance", "budget", "method", "label", "settings", "seed", "status", "message", "marks", "guarantee",
    "metrics", "cost", "extra", "made", "unit", "person_bound",
}  # fmt: skip


def bench(text, folder):
    study = parse_study(text)
    stored = stored_arrays(study, [folder])
    return cells_of(study, stored), {one.fingerprint: one for one in stored.values()}


def first(text, folder, method):
    """The record of the first cell of a method."""
    cells, tasks = bench(text, folder)
    return measure(next(cell for cell in cells if cell.method == method), tasks)


def test_a_record_has_every_field_and_is_json(toy):
    cells, tasks = bench(SMALL, toy)
    record = measure(cells[0], tasks)
    assert set(record) == FIELDS
    assert set(record["metrics"]) == {*METRICS, "per_class"}
    assert set(record["cost"]) == {"fit_seconds", "cell_seconds", "overhead_seconds", "peak_mib"}
    assert set(record["made"]) == {"version", "date", "host_cores", "study_digest", "data_fingerprint"}
    assert json.loads(json.dumps(record, allow_nan=False)) == record
    assert (record["rows"], record["classes"], record["dimension"], record["pool_rows"]) == (240, 4, 12, 200)
    assert record["budget"] == {
        "flavour": "approximate", "epsilon": 0.5, "delta": 1e-5, "rho": None, "mu": None,
        "relation": "add/remove",
    }  # fmt: skip
    assert record["guarantee"]["epsilon"] <= 0.5
    assert record["marks"] == {"oracle_tuned": False, "seeded": True, "not_private": False}


def test_metrics_fit_together_and_time_is_accounted_for(toy):
    cells, tasks = bench(SMALL, toy)
    cell = next(c for c in cells if c.task.imbalance == 4 and c.method == "mean" and c.budget["epsilon"] == 2)
    record = measure(cell, tasks)
    metrics, cost = record["metrics"], record["cost"]
    recalls, balanced = metrics["per_class"], metrics["balanced_accuracy"]
    assert balanced == pytest.approx(sum(recalls) / 4) == pytest.approx(metrics["accuracy"])
    assert metrics["worst_class"] == min(recalls)
    sizes = task_of(cell.task, *sources_of(cell, tasks)).sizes
    assert metrics["minority_accuracy"] == recalls[sizes.index(min(sizes))]
    assert 0 <= metrics["attack_auc"] <= 1
    assert 0 <= metrics["calibration_error"] <= 1
    assert balanced > 0.5
    assert 0 < cost["fit_seconds"] < cost["cell_seconds"]
    assert 0 <= cost["overhead_seconds"] < cost["cell_seconds"]
    assert cost["peak_mib"] >= 0


def test_a_method_without_noise_is_a_reference_with_no_guarantee(toy):
    def record(method):
        cells, tasks = bench(SMALL.replace("[0.5, 2]", "0.01").replace('"mean"', f'"{method}"'), toy)
        return measure(next(c for c in cells if c.method == method and c.task.seed == 1), tasks)

    bare, noisy = record("as-published-mean-without-noise"), record("mean")
    assert bare["marks"]["not_private"]
    assert not noisy["marks"]["not_private"]
    assert bare["guarantee"] is None
    assert noisy["guarantee"]["epsilon"] <= 0.01
    wanted = record("as-published-class-means")["metrics"]["per_class"]
    assert bare["metrics"]["per_class"] == wanted != noisy["metrics"]["per_class"]


def test_a_refusal_is_a_result(toy):
    text = SMALL.replace("epsilon = [0.5, 2]\ndelta = 1e-5", "pure = 1")
    record = first(text, toy, "mean")
    assert record["status"] == "refused"
    assert "pure" in record["message"]
    assert record["guarantee"] is None
    assert all(record["metrics"][name] is None for name in METRICS)
    assert record["rows"] == 240
    assert first(text, toy, "public")["status"] == "done"


def test_a_pool_with_private_rows_and_a_missing_one_are_refused(toy):
    record = first(SMALL.replace('pool = "pool"', 'pool = "none"'), toy, "public")
    assert (record["status"], record["pool"]) == ("refused", None)
    assert "public rows" in record["message"]
    private = read_private(toy / "toy.npz", Columns(split="train"), people=None)
    np.savez(toy / "pool.npz", x=private.rows[:100])
    record = first(SMALL, toy, "public")
    assert record["status"] == "refused"
    assert "private" in record["message"]


def test_any_other_error_is_raised_and_a_failed_record_has_the_same_fields(toy, monkeypatch):
    cells, tasks = bench(SMALL, toy)
    monkeypatch.setattr("dptransfer_lab.measure._evaluated", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        measure(cells[0], tasks)
    record = failed_record(cells[0], "the worker died")
    assert set(record) == FIELDS
    assert (record["status"], record["message"]) == ("failed", "the worker died")


def test_marks_and_settings_come_from_the_study(toy):
    record = first(SMALL, toy, "public")
    assert record["marks"]["oracle_tuned"]
    assert record["settings"]["features"]["type"] == "UnitNorm"
    assert set(record["extra"]["prototypes"]) == {f"class {place}" for place in range(4)}
    assert record["extra"]["axes"] == 12


def test_losses_of_rows_are_measured_where_they_are_asked_for(toy):
    """Unit-norm rows lose all that was promised, rows of zeros nothing: half of the first class is zeros."""
    rng = np.random.default_rng(0)
    rows = {part: np.full((40, 3), 1.0) + rng.random((40, 3)) for part in ("train", "test")}
    rows["train"][:10] = 0.0
    labels = np.repeat([0, 1], 20)
    np.savez(toy / "toy.npz", x_train=rows["train"], y_train=labels, x_test=rows["test"], y_test=labels)
    text = SMALL.replace("imbalance = [1, 4]", "instance_loss = true")
    cells, tasks = bench(text, toy)
    record = measure(cells[0], tasks)
    found = record["extra"]["instance_loss"]
    assert cells[0].method == "mean"
    assert found["promised"] == record["guarantee"]["epsilon"]
    assert found["percentiles"][:24] == [0.0] * 24
    assert found["percentiles"][27:] == pytest.approx([found["promised"]] * 74, rel=0.01)
    assert found["largest"] <= found["promised"]
    assert found["class_rows"] == [20, 20]
    assert found["class_medians"] == pytest.approx([found["promised"] / 2, found["promised"]], rel=0.01)
    assert record["metrics"]["instance_loss"] == pytest.approx(1.0, rel=0.01)
    assert record["extra"]["instance_loss_seconds"] > 0
    assert json.loads(json.dumps(record, allow_nan=False)) == record
    plain = measure(dataclasses.replace(cells[0], instance_loss=False), tasks)
    assert "instance_loss" not in plain["extra"]
    assert plain["metrics"]["instance_loss"] is None
    assert {**record["metrics"], "instance_loss": None, "instance_loss_spread": None} == plain["metrics"]


@pytest.mark.parametrize("name", list(AS_PUBLISHED))
def test_printed_mechanisms_run_and_are_marked_everywhere(toy, name):
    text = SMALL.replace('name = "mean"', f'name = "{name}"')
    cells, tasks = bench(text, toy)
    record = measure(cells[0], tasks)
    assert record["status"] == "done", record["message"]
    assert record["marks"]["not_private"]
    assert record["guarantee"] is None
    assert 0 <= record["metrics"]["attack_auc"] <= 1
    assert json.loads(json.dumps(record, allow_nan=False)) == record
    assert measure(cells[0], tasks)["metrics"] == record["metrics"]


def units(toy, text=PEOPLE, method="mean"):
    """The record of each unit, at the larger budget and the first seed."""
    cells, tasks = bench(text.replace('["row", "person"]', '["row", "person", "group"]'), toy)
    chosen = [c for c in cells if c.method == method and c.budget["epsilon"] == 2 and c.task.seed == 0]
    return {cell.unit: measure(cell, tasks) for cell in chosen}


@pytest.mark.parametrize("method", ["mean", "public"])
def test_every_unit_has_its_record_and_its_noise(toy, method):
    found = units(toy, method=method)
    assert {record["status"] for record in found.values()} == {"done"}
    assert [record["unit"] for record in found.values()] == ["row", "person", "group"]
    assert {record["extra"]["people"] for record in found.values()} == {40}
    assert {record["rows"] for record in found.values()} == {240}
    assert all(1.5 < record["guarantee"]["epsilon"] <= 2 for record in found.values())
    assert [record["extra"].get("group") for record in found.values()] == [None, None, 6]
    areas = {record["metrics"]["attack_auc"] for record in found.values()}
    assert len(areas) == 3  # three models
    assert all(json.loads(json.dumps(record, allow_nan=False)) == record for record in found.values())


def test_the_attack_on_people_takes_their_rows_together(toy):
    found = {unit: record["extra"]["attack"] for unit, record in units(toy).items()}
    assert found["row"]["members"] == found["row"]["others"] == found["group"]["others"] == 120
    assert (found["person"]["members"], found["person"]["others"]) == (40, 20)


def test_a_data_set_that_does_not_tell_people_is_refused_with_the_reason(toy):
    found = units(toy, PEOPLE.replace('people = "g"\n', ""))
    assert found["row"]["status"] == "done"
    assert "people" not in found["row"]["extra"]
    for unit in ("person", "group"):
        assert found[unit]["status"] == "refused"
        assert "people = '...'" in found[unit]["message"]


def test_losses_of_people_are_of_people(toy):
    found = units(toy, PEOPLE.replace("seeds = 2", "seeds = 2\ninstance_loss = true"))["person"]
    losses = found["extra"]["instance_loss"]
    assert losses["promised"] == found["guarantee"]["epsilon"]
    assert 0 < losses["largest"] <= losses["promised"]
    assert losses["class_rows"] == [60] * 4
