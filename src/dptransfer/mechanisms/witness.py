"""Draw witness coordinates beside the Gaussian answers of a run (`privacy.witnesses` says why)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import astuple, dataclass, field
from functools import partial
from typing import TypeAlias

import numpy as np

from dptransfer.base.types import AnyArray, Floats, Integers
from dptransfer.mechanisms.row_shares import set_inside
from dptransfer.noise import NoiseSource
from dptransfer.privacy.witnesses import Witnesses, WitnessLaw, coins_of
from dptransfer.queries.query import L2Query

ALL_TOGETHER = 4096
"""Witnesses of a run: 33 kB, and some tenths of a millisecond."""
_MOST = 3 * ALL_TOGETHER  # 98 kB; a run of more answers has none
_Law: TypeAlias = tuple[str, float, float, int]  # label, noise multiplier, sensitivity, grid
_LOG: ContextVar[WitnessLog | None] = ContextVar("witnesses", default=None)


@dataclass
class WitnessLog:
    """The witnesses of one run.

    Attributes:
        seed: of the coins.
        each: how many witnesses an answer has.
        most: how many there are at most; later answers have none.
        canaries: whether coins put some in; of several owners who add up their answers, one does.
    """

    seed: str
    each: int
    most: int = _MOST
    canaries: bool = True
    _laws: list[WitnessLaw] = field(default_factory=list)
    _values: list[Floats] = field(default_factory=list)
    _count: int = 0

    @property
    def is_full(self) -> bool:
        """Whether the next answer has none."""
        return self._count + self.each > self.most

    @property
    def next_coins(self) -> Floats:
        """Those of the next answer."""
        return coins_of(self.seed, self._count, self.each) * self.canaries

    def add(self, law: _Law, values: Floats) -> None:
        """Those of an answer, once it is there."""
        laws = self._laws
        before = laws.pop().answers if laws and astuple(laws[-1])[: len(law)] == law else 0
        laws.append(WitnessLaw(*law, before + 1, len(values)))
        self._values.append(values)
        self._count += len(values)

    @property
    def witnesses(self) -> Witnesses | None:
        """All so far; None where no answer had some."""
        if not self._laws:
            return None
        return Witnesses(self.seed, tuple(self._laws), np.concatenate(self._values))


@contextmanager
def draw_witnesses(
    seed: str, answers: int, wanted: int = ALL_TOGETHER, *, canaries: bool = True
) -> Iterator[WitnessLog]:
    """Answers of Gaussian mechanisms inside have witnesses, which together are about `wanted`."""
    most = max(wanted, _MOST)
    log = WitnessLog(seed, max(1, min(most, wanted) // max(1, answers)), most, canaries)
    with set_inside(_LOG, log if answers <= most else None):
        yield log


def sampler(noise: NoiseSource) -> Callable[[float, tuple[int, ...]], Integers]:
    """The source's Gaussian sampler; where witnesses are due, its draws are flat, with theirs at the end."""
    log = _LOG.get()
    if log is None or log.is_full:
        return noise.discrete_gaussian
    return partial(noise.gaussian_with_more, log.each)


def noisy(exact: Integers, draws: Integers, canary: float) -> Integers:
    """Answer and noise as integers; a canary is as many steps as the sensitivity, rounded down."""
    log = _LOG.get()
    if log is None or draws.shape == exact.shape:
        return exact + draws
    canaries = math.floor(canary) * log.next_coins.astype(np.int64)
    return np.concatenate([exact.ravel(), canaries]) + draws


def answer_of(steps: AnyArray, query: L2Query, noise_multiplier: float, sensitivity: float) -> Floats:
    """The answer in units and in its shape, from steps of the grid; its witnesses go into the log."""
    log, size, drawn = _LOG.get(), math.prod(query.shape), steps / float(query.grid)
    if log is None or drawn.size == size:
        return drawn
    log.add((query.label, noise_multiplier, sensitivity, query.grid), drawn[size:])
    return drawn[:size].reshape(query.shape)
