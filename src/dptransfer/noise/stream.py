"""Random words as fast as noise needs them: AES-256 in counter mode, with a fresh key for every stream.

The operating system's generator takes 20 ns for a 64-bit word, AES with a processor's own instructions 1 ns.
So the system gives 256 bits, the key, and the cipher makes words of them by encrypting 0, 1, 2, … What is
assumed is what encryption in this mode assumes: without the key, nobody can tell its output from uniform
words. The best known way to tell is that 128-bit blocks never repeat, which shows with probability below
q²/2¹²⁹ after q blocks: 2⁻⁶⁹ after 2³¹ words.

A stream lives as long as one call of a sampler. Two calls, two threads or the two sides of a fork therefore
never share a key, and nothing that is kept between calls could be read to repeat a draw; but for choices in a
workspace, which must come out the same when a run goes on (`methods.workspace`).
"""

from __future__ import annotations

import os

import numpy as np

from dptransfer.arrays import RandomWords

KEY_BYTES = 32
_ZEROS = memoryview(bytes(2**19))  # to encrypt a zero is to see the cipher's own bits


class WordStream:
    """Independent uniform 64-bit words that nobody can repeat who does not have the key.

    >>> WordStream().words(3).shape
    (3,)

    Args:
        key: 32 uniform bytes, for one stream that is to be repeated; new ones if not given.
    """

    def __init__(self, key: bytes | None = None) -> None:
        # Imported here, so that `import dptransfer` does not load a cipher.
        from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

        key, first_counter = key or os.urandom(KEY_BYTES), bytes(16)
        self._cipher = Cipher(algorithms.AES(key), modes.CTR(first_counter)).encryptor()

    def words(self, count: int) -> RandomWords:
        """The next `count` words of the stream; read-only."""
        size = 8 * count
        zeros = _ZEROS[:size] if size <= len(_ZEROS) else bytes(size)
        return np.frombuffer(self._cipher.update(zeros), dtype=np.uint64)

    def bits(self, count: int) -> int:
        """An integer of the next `count` bits; what is left of a byte is thrown away.

        >>> 0 <= WordStream().bits(3) < 8
        True
        """
        return int.from_bytes(self._cipher.update(bytes(-(-count // 8)))) >> (-count % 8)
