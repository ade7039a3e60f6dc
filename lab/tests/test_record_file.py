import json
import os
import subprocess
import sys

import pytest

from dptransfer.errors import DataError
from dptransfer_lab.results import FILE, RecordFile, canonical, lines_of


def record(cell, status="done"):
    return {"cell": cell, "status": status}


def cells_in(folder):
    return [one["cell"] for one in lines_of(folder / FILE)]


def test_records_come_back_in_order(tmp_path):
    with RecordFile(tmp_path) as results:
        for cell in "abc":
            results.append(record(cell))
    assert cells_in(tmp_path) == ["a", "b", "c"]
    with RecordFile(tmp_path) as results:
        assert results.finished == dict.fromkeys("abc", "done")


def test_a_cell_is_never_written_twice(tmp_path):
    with RecordFile(tmp_path) as results:
        results.append(record("a"))
        with pytest.raises(DataError, match="one result"):
            results.append(record("a"))
    assert len((tmp_path / FILE).read_text().splitlines()) == 1


@pytest.mark.parametrize("cut", [1, 7, 20])
def test_a_torn_last_line_is_skipped_and_then_cut_off(tmp_path, cut):
    with RecordFile(tmp_path) as results:
        results.append(record("a"))
        results.append(record("b"))
    file = tmp_path / FILE
    whole = file.read_bytes()
    file.write_bytes(whole[:-cut])
    assert cells_in(tmp_path) == ["a"]
    with RecordFile(tmp_path) as results:
        assert list(results.finished) == ["a"]
        results.append(record("b"))
    assert file.read_bytes() == whole


def test_a_torn_first_line_leaves_an_empty_file(tmp_path):
    (tmp_path / FILE).write_bytes(b'{"cell": "a", "sta' + b"x" * 100_000)
    with RecordFile(tmp_path) as results:
        assert results.finished == {}
    assert (tmp_path / FILE).read_bytes() == b""


def test_a_line_that_somebody_changed_is_an_error_not_a_loss(tmp_path):
    (tmp_path / FILE).write_text('{"cell": "a"\n' + json.dumps(record("b")) + "\n")
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


def test_canonical_json_has_one_form():
    assert canonical({"b": 1, "a": [1.5, None]}) == canonical({"a": [1.5, None], "b": 1})
    with pytest.raises(ValueError, match="JSON"):
        canonical(float("nan"))
