import tempfile

import pytest


@pytest.fixture
def place(tmp_path_factory, monkeypatch):
    """Where archives and pictures in tables are unpacked."""
    folder = tmp_path_factory.mktemp("temporary")
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


@pytest.fixture
def parquet(tmp_path, place):
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")

    def written(**columns):
        pq.write_table(pa.table(columns), tmp_path / "a.parquet")
        return tmp_path / "a.parquet"

    return written
