"""Sketches as they lie in the ledger's file: encrypted with its secret key, and all of one length.

A sketch has a hash for each row, up to a bound, and equal rows have equal hashes. In the clear it would tell
whoever has the file how many rows a small data set has, which nobody may know under add/remove, and how many
two data sets share. So it is padded to the largest length and added, bit by bit, to the output of SHAKE-256
on key and a random nonce. The chain's hashes keep it as it is.
"""

from __future__ import annotations

import base64
import hashlib
import secrets

import numpy as np

from dptransfer.ledger.row_hashes import Words
from dptransfer.ledger.sketch import KEPT, Sketch

_PURPOSE = b"dptransfer sealed sketch"
_NONCE = 16
_WORDS = KEPT + 1  # the number of hashes, and the hashes


def sealed_sketch(sketch: Sketch, key: bytes) -> str:
    """The sketch for the ledger's JSON.

    >>> one = Sketch(range(3))
    >>> opened_sketch(sealed_sketch(one, b"key"), b"key") == one
    True
    >>> len(sealed_sketch(one, b"key")) == len(sealed_sketch(Sketch(range(3000)), b"key"))
    True
    """
    words = np.zeros(_WORDS, dtype=np.uint64)
    words[0] = len(sketch.hashes)
    words[1 : 1 + len(sketch.hashes)] = sketch.hashes
    nonce = secrets.token_bytes(_NONCE)
    closed = (words ^ _stream(key, nonce)).astype(">u8")
    return base64.b64encode(nonce + closed.tobytes()).decode()


def opened_sketch(text: str, key: bytes) -> Sketch:
    """Read what `sealed_sketch` wrote; ValueError for anything else."""
    content = base64.b64decode(text, validate=True)
    nonce, body = content[:_NONCE], np.frombuffer(content[_NONCE:], dtype=">u8")
    if len(body) != _WORDS:
        raise ValueError("a sketch has one length")
    words = body.astype(np.uint64) ^ _stream(key, nonce)
    count, hashes = int(words[0]), words[1:]
    if not 0 < count <= KEPT or (hashes[1:count] <= hashes[: count - 1]).any() or hashes[count:].any():
        raise ValueError("a sketch is a short list of ascending hashes")
    return Sketch(hashes[:count])


def _stream(key: bytes, nonce: bytes) -> Words:
    content = hashlib.shake_256(_PURPOSE + key + nonce).digest(8 * _WORDS)
    return np.frombuffer(content, dtype=">u8").astype(np.uint64)
