"""What private data changed in an encoder: released arrays, and the identity of that encoder."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from dptransfer.arrays import Floats32
from dptransfer.data.identity import EncoderIdentity
from dptransfer.errors import ArgumentError

BESIDE = "-beside"
"""End of a delta's kind whose encoder gives rows of both, changed and unchanged, side by side."""


@dataclass(frozen=True, eq=False)
class EncoderDelta:
    """Arrays that turn a public encoder into the one whose rows a classifier takes.

    Rows of the adapted encoder and of its base do not mix: `identity` is the base's, with a name and a digest
    of weights that the delta changes.

    >>> base = EncoderIdentity("tiny-net", "ab" * 32, "rgb 8")
    >>> delta = EncoderDelta(base, "state", {"norm.weight": np.ones(3, dtype=np.float32)})
    >>> delta.identity.name, delta.identity.weights == base.weights
    ('tiny-net+state', False)

    Attributes:
        base: the encoder that is changed.
        kind: how the encoder applies it; 'state': arrays take the place of parameters of the same names. With
            `BESIDE` at the end, its rows are those of the changed encoder and those of the base next to each
            other, both scaled to unit norm.
        arrays: float32 and finite, by name.
    """

    base: EncoderIdentity
    kind: str
    arrays: Mapping[str, Floats32] = field(repr=False)

    def __post_init__(self) -> None:
        """Check the arrays, and keep copies that nobody can change."""
        if not re.fullmatch("[a-z][a-z-]*", self.kind):
            raise ArgumentError(f"A delta's kind must be a word, such as 'state'; got {self.kind!r}.")
        if not self.arrays:
            raise ArgumentError("An encoder delta must change something; it has no array. Leave it out.")
        kept = {name: _fixed(name, array) for name, array in sorted(self.arrays.items())}
        object.__setattr__(self, "arrays", kept)

    @cached_property
    def identity(self) -> EncoderIdentity:
        """Who makes the rows: the base, changed by this delta and no other."""
        shapes = [[name, array.shape] for name, array in self.arrays.items()]
        digest = hashlib.sha256(
            json.dumps([self.base.weights, self.kind, shapes]).encode()
        )  # ends where it ends
        for array in self.arrays.values():
            digest.update(array.astype("<f4", copy=False).tobytes())
        return replace(self.base, name=f"{self.base.name}+{self.kind}", weights=digest.hexdigest())


def _fixed(name: str, array: Any) -> Floats32:
    if not isinstance(array, np.ndarray) or array.dtype != np.float32 or not np.isfinite(array).all():
        raise ArgumentError(
            f"Arrays of an encoder delta must be float32 and finite; '{name}' is not. Convert it."
        )
    copy = np.array(array, order="C")
    copy.setflags(write=False)
    return copy
