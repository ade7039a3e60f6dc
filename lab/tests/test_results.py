import csv
import json
import os
import subprocess
import sys

import pytest

from dptransfer.errors import DataError
from dptransfer_lab.results import (
    FILE,
    ResultsWriter,
    canonical,
    export_table,
    flat,
    read_records,
    read_study,
    studies_of,
    write_study,
)


def record(cell, status="done", **more):
    marks = {"oracle_tuned": False, "seeded": True, "not_private": False}
    return {"cell": cell, "status": status, "label": "a", "study": "s", "marks": marks, **more}


def test_records_come_back_in_order(tmp_path):
    with ResultsWriter(tmp_path) as results:
        for cell in "abc":
            results.append(record(cell))
    assert [one["cell"] for one in read_records(tmp_path)] == ["a", "b", "c"]
    with ResultsWriter(tmp_path) as results:
        assert results.finished == dict.fromkeys("abc", "done")


def test_a_cell_is_never_written_twice(tmp_path):
    with ResultsWriter(tmp_path) as results:
        results.append(record("a"))
        with pytest.raises(DataError, match="one result"):
            results.append(record("a"))
    assert len((tmp_path / FILE).read_text().splitlines()) == 1


def test_a_failed_cell_may_be_tried_again_and_the_last_word_counts(tmp_path):
    with ResultsWriter(tmp_path) as results:
        results.append(record("a", "failed"))
        results.append(record("a", "done"))
    assert [one["status"] for one in read_records(tmp_path)] == ["done"]


@pytest.mark.parametrize("cut", [1, 7, 30])
def test_a_torn_last_line_is_skipped_and_then_cut_off(tmp_path, cut):
    with ResultsWriter(tmp_path) as results:
        results.append(record("a"))
        results.append(record("b"))
    file = tmp_path / FILE
    whole = file.read_bytes()
    file.write_bytes(whole[:-cut])
    assert [one["cell"] for one in read_records(tmp_path)] == ["a"]
    with ResultsWriter(tmp_path) as results:
        assert list(results.finished) == ["a"]
        results.append(record("b"))
    assert file.read_bytes() == whole


def test_a_torn_first_line_leaves_an_empty_file(tmp_path):
    (tmp_path / FILE).write_bytes(b'{"cell": "a", "sta' + b"x" * 100_000)
    with ResultsWriter(tmp_path) as results:
        assert results.finished == {}
    assert (tmp_path / FILE).read_bytes() == b""


def test_a_line_that_somebody_changed_is_an_error_not_a_loss(tmp_path):
    (tmp_path / FILE).write_text('{"cell": "a"\n' + json.dumps(record("b")) + "\n")
    with pytest.raises(DataError, match="line 1 is not"):
        read_records(tmp_path)


def test_one_writer_at_a_time(tmp_path):
    code = (
        "import sys; from dptransfer_lab.results import ResultsWriter\n"
        "try:\n    ResultsWriter(sys.argv[1]).__enter__()\nexcept Exception as problem:\n    print(problem)\n"
        "else:\n    print('opened')\n"
    )
    ask = [sys.executable, "-c", code, str(tmp_path)]
    with ResultsWriter(tmp_path):
        said = subprocess.run(ask, capture_output=True, text=True, env=dict(os.environ)).stdout
        assert "another is at work" in said
    assert "opened" in subprocess.run(ask, capture_output=True, text=True, env=dict(os.environ)).stdout


def test_a_folder_without_results_says_how_to_make_some(tmp_path):
    with pytest.raises(DataError, match="bench run"):
        read_records(tmp_path)


def test_a_study_sees_its_own_cells_under_its_own_names(tmp_path):
    with ResultsWriter(tmp_path) as results:
        results.append(record("a"))
        results.append(record("b"))
    write_study(tmp_path, "mine", {"cells": {"b": {"label": "other name", "oracle_tuned": True}}})
    (found,) = read_records(tmp_path, "mine")
    assert (found["cell"], found["label"], found["study"]) == ("b", "other name", "mine")
    assert found["marks"]["oracle_tuned"]
    assert studies_of(tmp_path) == ["mine"]
    with pytest.raises(DataError, match="it holds mine"):
        read_study(tmp_path, "theirs")


def test_tables_hold_the_same_numbers(tmp_path):
    pytest.importorskip("pyarrow")
    import pyarrow.parquet

    records = [
        record("a", metrics={"accuracy": 0.5, "per_class": [1.0, None]}, settings={"k": 3}, seed=1),
        record("b", metrics={"accuracy": None, "per_class": []}, settings={}, seed=2),
    ]
    rows = list(csv.DictReader(export_table(records, tmp_path / "t.csv").read_text().splitlines()))
    assert [row["metrics.accuracy"] for row in rows] == ["0.5", ""]
    assert json.loads(rows[0]["settings"]) == {"k": 3}
    table = pyarrow.parquet.read_table(export_table(records, tmp_path / "t.parquet"))
    assert table.column("metrics.accuracy").to_pylist() == [0.5, None]
    assert table.column("seed").to_pylist() == [1, 2]
    with pytest.raises(DataError, match=r"\.csv or \.parquet"):
        export_table(records, tmp_path / "t.xlsx")


def test_canonical_json_has_one_form():
    assert canonical({"b": 1, "a": [1.5, None]}) == canonical({"a": [1.5, None], "b": 1})
    with pytest.raises(ValueError, match="JSON"):
        canonical(float("nan"))
    assert flat({"a": {"b": {"c": 1}}}) == {"a.b.c": 1}
