import os

import numpy as np

from dptransfer_lab.stored import Stored, cached_arrays


def make(value=1.0, calls=None):
    def made():
        if calls is not None:
            calls.append(1)
        return Stored("f", classes=("a",)), {"rows": np.full((2, 3), value)}

    return made


def test_arrays_are_made_once_per_key(tmp_path, monkeypatch):
    monkeypatch.setenv("DPTRANSFER_CACHE", str(tmp_path))
    calls = []
    first = cached_arrays({"file": "x"}, make(1.0, calls))
    assert cached_arrays({"file": "x"}, make(2.0, calls)) == first
    assert len(calls) == 1
    assert cached_arrays({"file": "y"}, make(2.0)).open()["rows"][0, 0] == 2.0
    assert isinstance(first.open()["rows"], np.memmap)
    assert not [path for path in (tmp_path / "bench").iterdir() if path.name.startswith(".")]


def test_a_folder_with_a_missing_array_is_made_again(tmp_path, monkeypatch):
    monkeypatch.setenv("DPTRANSFER_CACHE", str(tmp_path))
    first = cached_arrays({"file": "x"}, make())
    (tmp_path / first.files["rows"]).unlink()
    assert cached_arrays({"file": "x"}, make()).open()["rows"].shape == (2, 3)


def test_what_is_kept_is_the_owners_alone(tmp_path, monkeypatch):
    """A study may name files that are not public."""
    monkeypatch.setenv("DPTRANSFER_CACHE", str(tmp_path))
    before = os.umask(0)
    try:
        cached_arrays({"file": "x"}, make())
    finally:
        os.umask(before)
    (folder,) = (tmp_path / "bench").iterdir()
    assert folder.stat().st_mode & 0o777 == 0o700
