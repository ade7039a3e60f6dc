"""Where onnxruntime-web is looked for."""

import io
import tarfile

import pytest

from dptransfer.errors import DataError
from dptransfer.page.ort_runtime import BINARY, GLUE, MODULE, VARIABLE, read_runtime

NAMES = (MODULE, GLUE, BINARY)


@pytest.fixture(autouse=True)
def nowhere(tmp_path, monkeypatch):
    monkeypatch.delenv(VARIABLE, raising=False)
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")


def files(folder, names=NAMES):
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        (folder / name).write_text(f"/*! ONNX Runtime Web v1.2.3 */ {name}")
    return folder


def archive(path, names=NAMES):
    with tarfile.open(path, "w:gz") as made:
        for name in (*names, "ort.webgpu.mjs"):
            content = f"/* ONNX Runtime Web v9.8.7-dev.1 */ {name}".encode()
            entry = tarfile.TarInfo(f"package/dist/{name}")
            entry.size = len(content)
            made.addfile(entry, io.BytesIO(content))
    return path


def test_what_npm_packs_is_read(tmp_path):
    found = read_runtime(archive(tmp_path / "onnxruntime-web-9.8.7.tgz"))
    assert found.version == "9.8.7-dev.1"
    assert found.files == {name: f"/* ONNX Runtime Web v9.8.7-dev.1 */ {name}".encode() for name in NAMES}


@pytest.mark.parametrize("inside", [".", "dist", "node_modules/onnxruntime-web/dist"])
def test_a_folder_may_be_the_package_or_what_holds_it(tmp_path, inside):
    files(tmp_path / "there" / inside)
    found = read_runtime(tmp_path / "there")
    assert (found.version, set(found.files)) == ("1.2.3", set(NAMES))


def test_a_package_that_npm_installed_above_is_found(tmp_path):
    files(tmp_path / "node_modules" / "onnxruntime-web" / "dist")
    assert read_runtime().version == "1.2.3"


def test_a_variable_says_where_it_is(tmp_path, monkeypatch):
    monkeypatch.setenv(VARIABLE, str(archive(tmp_path / "web.tgz")))
    assert read_runtime().version == "9.8.7-dev.1"


@pytest.mark.parametrize("place", ["missing.tgz", "no-archive.tgz", "half.tgz", "half"])
def test_anything_else_is_refused(tmp_path, place):
    (tmp_path / "no-archive.tgz").write_bytes(b"no archive")
    archive(tmp_path / "half.tgz", names=NAMES[:2])
    files(tmp_path / "half", names=NAMES[:2])
    with pytest.raises(DataError):
        read_runtime(tmp_path / place)


def test_without_one_the_error_says_how_to_get_it():
    with pytest.raises(DataError, match="npm pack"):
        read_runtime()
