"""Find onnxruntime-web, which runs the model in the browser: a folder, or the archive that npm packs.

It is 14 MB of WebAssembly, and no Python package has it. So it is got once, from npm.
"""

from __future__ import annotations

import os
import re
import tarfile
from collections.abc import Iterator
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
_INSIDE = (".", "dist", "node_modules/onnxruntime-web/dist")


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
    named = place or (Path(told) if (told := os.environ.get(VARIABLE)) else None)
    if named is None:
        above = (folder for folder in (Path.cwd(), *Path.cwd().parents) if _folder_in(folder) is not None)
        named = next(above, None)
        if named is None:
            raise DataError(f"A page needs onnxruntime-web, which was not found. {_REMEDY}")
    files = dict(_in_archive(named) if named.is_file() else _in_folder(named))
    if set(files) != {MODULE, GLUE, BINARY}:
        raise DataError(f"'{named}' must hold onnxruntime-web, with {MODULE}; it does not. {_REMEDY}")
    stated = re.search(rb"ONNX Runtime Web v([\w.-]+)", files[MODULE][:1000])
    return WebRuntime(stated[1].decode() if stated else "of unknown version", files)


def _folder_in(place: Path) -> Path | None:
    return next((place / inside for inside in _INSIDE if (place / inside / MODULE).is_file()), None)


def _in_folder(place: Path) -> Iterator[tuple[str, bytes]]:
    folder = _folder_in(place)
    for name in (MODULE, GLUE, BINARY):
        if folder is not None and (folder / name).is_file():
            yield name, (folder / name).read_bytes()


def _in_archive(file: Path) -> Iterator[tuple[str, bytes]]:
    try:
        with tarfile.open(file) as archive:
            for name in (MODULE, GLUE, BINARY):
                if (content := archive.extractfile(f"package/dist/{name}")) is not None:
                    yield name, content.read()
    except (tarfile.TarError, KeyError, OSError, EOFError):
        return
