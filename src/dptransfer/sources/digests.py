"""Digests of what rows were made from, files, texts or pixels, by which data are known again in any encoding.

A digest is 64 bits of BLAKE2b. It is as private as the example itself, for whoever guesses the example can
check the guess: it is kept in `.emb` folders, beside the rows, and ledgers keep keyed hashes of it alone. 0
stands for what cannot be recognised: a file that cannot be read, an empty text, a picture of one colour.
"""

from __future__ import annotations

import hashlib
import unicodedata
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dptransfer.base.worker_env import cores_here
from dptransfer.data.examples import slabs

_FILE, _TEXT, _PICTURE = b"file", b"text", b"picture"


def file_digests(paths: Sequence[Path]) -> NDArray[np.uint64]:
    """Of the bytes of files, whatever their names and places."""
    with ThreadPoolExecutor(min(8, len(cores_here()))) as threads:
        return _listed(threads.map(_of_file, paths))


def text_digests(texts: Iterable[str]) -> NDArray[np.uint64]:
    """Of texts, whatever their white space and composition of letters."""
    return _listed(
        _digest(_TEXT, words.encode("utf-8", "surrogatepass")) if words else 0
        for words in (" ".join(unicodedata.normalize("NFC", str(text)).split()) for text in texts)
    )


def picture_digests(pixels: Any) -> NDArray[np.uint64]:
    """Of pictures as bytes, (pictures, height, width, 3), or of what is indexed like that."""
    form = repr(tuple(pixels.shape[1:])).encode()
    return _listed(
        _digest(_PICTURE, form + picture.tobytes()) if (picture != picture[0, 0]).any() else 0
        for slab in slabs(pixels)
        for picture in np.asarray(pixels[slab])
    )


def _of_file(path: Path) -> int:
    digest = hashlib.blake2b(digest_size=8, person=_FILE)
    try:
        with open(path, "rb") as stream:
            while part := stream.read(2**20):
                digest.update(part)
    except OSError:  # reading it for its pixels fails likewise, and says so where that may be said
        return 0
    return int.from_bytes(digest.digest(), "little")


def _digest(kind: bytes, content: bytes) -> int:
    return int.from_bytes(hashlib.blake2b(content, digest_size=8, person=kind).digest(), "little")


def _listed(digests: Iterable[int]) -> NDArray[np.uint64]:
    return np.fromiter(digests, dtype=np.uint64)
