"""Damaged and dishonest `.npy` and `.npz` files."""

import io
import zipfile

import numpy as np
import pytest

from dptransfer.data.numpy_files import Archive, load_array
from dptransfer.errors import DataError

X = np.random.default_rng(1).normal(size=(30, 5)).astype(np.float32)


def npy_bytes(array):
    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()


def npz_bytes(**arrays):
    stream = io.BytesIO()
    np.savez_compressed(stream, **arrays)
    return stream.getvalue()


def test_a_header_that_claims_more_than_the_file_holds_allocates_nothing(tmp_path):
    huge = npy_bytes(X).replace(b"(30, 5)", b"(999999999999, 5)")
    (tmp_path / "x.npy").write_bytes(huge)
    with pytest.raises(DataError, match="complete array"):
        load_array(tmp_path / "x.npy")
    for compression in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        with zipfile.ZipFile(tmp_path / "x.npz", "w", compression) as archive:
            archive.writestr("x.npy", huge)
        with pytest.raises(DataError, match="claims more"):
            Archive(tmp_path / "x.npz")["x"]


def test_a_type_without_content_is_refused_before_it_is_copied(tmp_path):
    header = npy_bytes(np.zeros(30, dtype="<U1"))
    assert b"'<U1'" in header
    empty = header.replace(b"'<U1'", b"'<U0'").replace(b"(30,), }          ", b"(999999999999,), }")
    assert len(empty) == len(header)
    (tmp_path / "y.npy").write_bytes(empty)
    with zipfile.ZipFile(tmp_path / "y.npz", "w") as archive:
        archive.writestr("y.npy", empty)
    with pytest.raises(DataError, match="damaged"):
        load_array(tmp_path / "y.npy")
    with pytest.raises(DataError, match="must be a complete"):
        Archive(tmp_path / "y.npz")["y"]


def test_words_that_are_no_text_are_refused_where_they_are_read(tmp_path):
    content = bytearray(npy_bytes(np.array(["ab", "cd"])))
    content[-4:] = b"\xff\xff\xff\x7f"
    (tmp_path / "y.npy").write_bytes(content)
    with pytest.raises(DataError, match="complete array"):
        load_array(tmp_path / "y.npy")


def test_looking_for_a_name_reads_no_array(tmp_path, monkeypatch):
    (tmp_path / "x.npz").write_bytes(npz_bytes(x=X))
    monkeypatch.setattr(np.lib.format, "read_array", None)
    arrays = Archive(tmp_path / "x.npz")
    assert "x" in arrays
    assert "y" not in arrays
    assert list(arrays) == ["x"]


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_two_arrays_of_one_name_are_refused(tmp_path):
    """`numpy.load` reads the last, and others the first."""
    path = tmp_path / "a.npz"
    np.savez(path, x=np.zeros(2))
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("x.npy", archive.read("x.npy"))
    with pytest.raises(DataError, match="one name"):
        Archive(path)
