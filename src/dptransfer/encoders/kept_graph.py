"""An ONNX graph that is made once from public weights and kept in the cache folder, under its own digest."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import IO

from dptransfer.data.on_disk import write_if_possible
from dptransfer.features.principal_axes import cache_folder


def kept_graph(name: str, weights: Path, make: Callable[[], bytes]) -> bytes:
    """The graph from the cache folder, or made and kept there.

    The file's name ends in the digest of what is in it, so a damaged file is known and made again; and the
    digest of the weights stands before it, so other weights have a graph of their own. Anybody can name a
    file so: in a folder that several people share, what others could have written is not taken. A graph of
    theirs could make a row depend on the calls before it, and no guarantee covers that.

    Args:
        name: of the graph; another for each way of making it.
        weights: the file that it is made from.
        make: makes it.
    """
    with weights.open("rb") as stream:
        source = hashlib.file_digest(stream, "sha256").hexdigest()[:16]
    beginning = f"{name}-{source}-"
    with suppress(OSError):
        for file in sorted(cache_folder().glob(f"{beginning}*.onnx")):
            with file.open("rb") as stream:
                graph, ours = stream.read(), _is_ours(stream)
            if ours and file.name == _named(beginning, graph):
                return graph
    graph = make()
    write_if_possible(cache_folder() / _named(beginning, graph), graph)
    return graph


def _named(beginning: str, graph: bytes) -> str:
    return f"{beginning}{hashlib.sha256(graph).hexdigest()}.onnx"


def _is_ours(stream: IO[bytes]) -> bool:
    """Whether nobody but this user, or the machine's administrator, can have written the file."""
    found = os.fstat(stream.fileno())
    return os.name != "posix" or (found.st_uid in (0, os.getuid()) and not found.st_mode & 0o022)
