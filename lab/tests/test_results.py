import csv
import json
import os
import subprocess
import sys

import pytest

from dptransfer.errors import DataError
from dptransfer_lab.results import (
    COLUMNS,
    FILE,
    GROUP,
    RecordFile,
    export_tables,
    frame_of,
    lines_of,
    read_results,
    read_study,
    studies_of,
    write_study,
)

from .synthetic import grid, record

CUT = {"rows": None, "classes": 2, "pool_rows": None, "dimension": None}


def test_a_frame_has_the_declared_columns_and_types():
    for records in (grid(seeds=1), [record(status="refused", message="no pool", pool=None)], []):
        frame = frame_of(records)
        assert list(frame) == list(COLUMNS)
        assert all(str(frame[name].dtype) == kind for name, (_, kind) in COLUMNS.items())


def test_sizes_that_were_asked_for_tell_groups_apart_and_those_a_seed_left_do_not():
    cut = [record(rows=rows, seed=seed, extra={"cut": CUT}) for seed, rows in enumerate((10, 12))]
    assert len(frame_of(cut).drop_duplicates(GROUP)) == 1
    asked = [record(extra={"cut": {**CUT, "rows": rows}}) for rows in (10, 12)]
    assert len(frame_of(asked).drop_duplicates(GROUP)) == 2
    assert len(frame_of([record(), record(label="b")]).drop_duplicates(GROUP)) == 2
    people = record(unit="person"), record(unit="person", person_bound=2.0)
    assert len(frame_of([record(), *people, record(unit="group")]).drop_duplicates(GROUP)) == 4


@pytest.mark.parametrize("change", [{"marks": {}}, {"imbalance": "steep"}, {"budget": None}, {"rows": 1.5}])
def test_a_record_of_another_shape_is_refused(change):
    with pytest.raises(DataError, match="Somebody else"):
        frame_of([record(), {**record(seed=1), **change}])


def test_a_failed_cell_may_be_tried_again_and_the_last_word_counts(tmp_path):
    failed = record(status="failed")
    with RecordFile(tmp_path) as results:
        results.append(failed)
        results.append({**record(), "cell": failed["cell"]})
    assert list(read_results(tmp_path)["status"]) == ["done"]


def test_a_study_sees_its_own_cells_under_its_own_names(tmp_path):
    one, other = record(), record(seed=1)
    with RecordFile(tmp_path) as results:
        results.append(one)
        results.append(other)
    write_study(tmp_path, "mine", {"cells": {other["cell"]: {"label": "other name", "oracle_tuned": True}}})
    (found,) = read_results(tmp_path, "mine").to_dict("records")
    assert (found["cell"], found["label"], found["study"]) == (other["cell"], "other name", "mine")
    assert found["oracle_tuned"]
    assert list(read_results(tmp_path)["cell"]) == [one["cell"], other["cell"]]
    assert studies_of(tmp_path) == ["mine"]
    with pytest.raises(DataError, match="it holds mine"):
        read_study(tmp_path, "theirs")
    with pytest.raises(DataError, match="bench run"):
        read_results(tmp_path / "nowhere")


def test_tables_hold_the_same_numbers(tmp_path):
    import pyarrow.parquet

    frame = frame_of([record(seed=1, balanced=0.5, settings={"k": 3}), record(seed=2, status="failed")])
    export_tables(frame, tmp_path)
    rows = list(csv.DictReader((tmp_path / "results.csv").read_text().splitlines()))
    assert [row["metrics.balanced_accuracy"] for row in rows] == ["0.5", ""]
    assert json.loads(rows[0]["settings"]) == {"k": 3}
    assert json.loads(rows[0]["metrics.per_class"]) == [0.5] * 10
    table = pyarrow.parquet.read_table(tmp_path / "results.parquet")
    assert table.column("metrics.balanced_accuracy").to_pylist() == [0.5, None]
    assert table.column("seed").to_pylist() == [1, 2]


def line(cell, status="done"):
    return {"cell": cell, "status": status}


def cells_in(folder):
    return [one["cell"] for one in lines_of(folder / FILE)]


def test_a_cell_is_never_written_twice(tmp_path):
    with RecordFile(tmp_path) as results:
        results.append(line("a"))
        with pytest.raises(DataError, match="one result"):
            results.append(line("a"))
    assert len((tmp_path / FILE).read_text().splitlines()) == 1


@pytest.mark.parametrize("cut", [1, 7, 20])
def test_a_torn_last_line_is_skipped_and_then_cut_off(tmp_path, cut):
    with RecordFile(tmp_path) as results:
        results.append(line("a"))
        results.append(line("b"))
    file = tmp_path / FILE
    whole = file.read_bytes()
    file.write_bytes(whole[:-cut])
    assert cells_in(tmp_path) == ["a"]
    with RecordFile(tmp_path) as results:
        assert list(results.finished) == ["a"]
        results.append(line("b"))
    assert file.read_bytes() == whole


def test_a_line_that_somebody_changed_is_an_error_not_a_loss(tmp_path):
    (tmp_path / FILE).write_text('{"cell": "a"\n' + json.dumps(line("b")) + "\n")
    before = (tmp_path / FILE).read_bytes()
    with pytest.raises(DataError, match="line 1 is not"):
        RecordFile(tmp_path).__enter__()
    assert (tmp_path / FILE).read_bytes() == before


def test_one_writer_at_a_time(tmp_path):
    code = (
        "import sys; from dptransfer_lab.results import RecordFile\n"
        "try:\n    RecordFile(sys.argv[1]).__enter__()\nexcept Exception as problem:\n    print(problem)\n"
        "else:\n    print('opened')\n"
    )
    ask = [sys.executable, "-c", code, str(tmp_path)]
    with RecordFile(tmp_path):
        said = subprocess.run(ask, capture_output=True, text=True, env=dict(os.environ)).stdout
        assert "is at work" in said
    assert "opened" in subprocess.run(ask, capture_output=True, text=True, env=dict(os.environ)).stdout
