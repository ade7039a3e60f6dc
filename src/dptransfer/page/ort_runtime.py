"""Find onnxruntime-web, which runs the model in the browser: a folder, or the archive that npm packs.

It is 14 MB of WebAssembly, and no Python package has it. So it is got once, from npm.
"""

from __future__ import annotations

import os
import re
import tarfile
from pathlib import Path
from typing import NamedTuple

from dptransfer.errors import DataError

TESTED = "1.30.0"
MODULE, GLUE, BINARY = "ort.wasm.min.mjs", "ort-wasm-simd-threaded.mjs", "ort-wasm-simd-threaded.wasm"
VARIABLE = "DPTRANSFER_ORT_WEB"
_REMEDY = (
    f"Get it once with 'npm pack onnxruntime-web@{TESTED}', or download "
    f"https://registry.npmjs.org/onnxruntime-web/-/onnxruntime-web-{TESTED}.tgz, and pass --runtime FILE.tgz."
)
_FOLDERS = ("", "dist", "node_modules/onnxruntime-web/dist")


class WebRuntime(NamedTuple):
    """The files of onnxruntime-web for a CPU, by name.

    Attributes:
        version: as the files state it.
        files: their content.
    """

    version: str
    files: dict[str, bytes]


def read_runtime(place: Path | None = None) -> WebRuntime:
    """The runtime in this archive or folder; by default in $DPTRANSFER_ORT_WEB, or in a node_modules above.

    Raises:
        DataError: it is not there.
    """
    named = [place] if place else [Path(told)] if (told := os.environ.get(VARIABLE)) else []
    for one in named or (Path.cwd(), *Path.cwd().parents):
        found = _in_archive(one) if one.is_file() else _in_folder(one)
        if found.keys() == {MODULE, GLUE, BINARY}:
            stated = re.search(rb"ONNX Runtime Web v([\w.-]+)", found[MODULE][:1000])
            return WebRuntime(stated[1].decode() if stated else "of unknown version", found)
    where = f"'{named[0]}' has no {MODULE} with what it needs" if named else "it was not found"
    raise DataError(f"A page needs onnxruntime-web; {where}. {_REMEDY}")


def _in_folder(place: Path) -> dict[str, bytes]:
    paths = (place / folder / name for folder in _FOLDERS for name in (MODULE, GLUE, BINARY))
    return {path.name: path.read_bytes() for path in paths if path.is_file()}


def _in_archive(file: Path) -> dict[str, bytes]:
    try:
        with tarfile.open(file) as archive:
            parts = {name: archive.extractfile(f"package/dist/{name}") for name in (MODULE, GLUE, BINARY)}
            return {name: part.read() for name, part in parts.items() if part is not None}
    except (tarfile.TarError, KeyError, OSError, EOFError):
        return {}
