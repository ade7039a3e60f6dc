"""Noise sources for checks: none at all, one that fails, and one that replays recorded answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dptransfer.arrays import AnyArray, Integers
from dptransfer.noise import SeededNoise
from dptransfer.noise.race import Choice, Wanted
from dptransfer.noise.score_bins import ScoreBins
from dptransfer.testing.contract import require

_SAMPLERS = (
    "discrete_gaussian",
    "discrete_laplace",
    "best_set",
    "permute_and_flip",
    "subset",
    "poisson_sample",
    "integers",
    "trials",
)


class NoNoise(SeededNoise):
    """No noise at all: shows the exact answers, for tests alone."""

    def __init__(self) -> None:
        super().__init__(0)

    def discrete_gaussian(self, scale: float, shape: tuple[int, ...]) -> Integers:
        """Zeros."""
        return np.zeros(shape, dtype=np.int64)

    discrete_laplace = discrete_gaussian

    def best_set(self, bins: ScoreBins, size: int, scale: float) -> Choice:
        """The best candidates; ties go to the smaller positions."""
        found = bins.falling()
        lots = yield [Wanted(*one[:2], tuple(range(one.held))) for one in found]
        best = sorted((one for lot in lots for one in lot), key=lambda one: (-one.score, one.position))
        return tuple(sorted(one.position for one in best[:size]))

    def permute_and_flip(self, bins: ScoreBins, scale: float) -> Choice:
        """The best candidate."""
        return self.best_set(bins, 1, scale)


class FailingNoise(SeededNoise):
    """A source that fails half-way through a run."""

    def __init__(self) -> None:
        super().__init__(0)

    def __getattribute__(self, name: str) -> Any:
        return _fail if name in _SAMPLERS else super().__getattribute__(name)


def _fail(*_: Any) -> Any:
    raise OSError("no entropy")


class RecordedAnswers(SeededNoise):
    """Answers that are recorded in one run and replayed in another, about other private data.

    Whatever is released must follow from noisy answers, so both runs must release the same.

    Args:
        seed: of the noise.
        answers: those of an earlier run, to replay; None to record.
    """

    def __init__(self, seed: int, answers: Sequence[tuple[str, AnyArray]] | None = None) -> None:
        super().__init__(seed)
        self.answers: list[tuple[str, AnyArray]] = [] if answers is None else list(answers)
        self._replays, self._asked, self._inside = answers is not None, 0, False

    def once(self, what: str, draw: Callable[[], AnyArray]) -> AnyArray:
        """The recorded answer, or a fresh one that is recorded."""
        place, self._asked = self._asked, self._asked + 1
        if not self._replays:
            self._inside = True
            try:
                answer = np.asarray(draw())
            finally:
                self._inside = False
            self.answers.append((what, answer.copy()))
            return answer
        asked = self.answers[place][0] if place < len(self.answers) else "nothing"
        require(asked == what, f"on other private data it asks for '{what}' where it asked for '{asked}'")
        return self.answers[place][1].copy()

    def __getattribute__(self, name: str) -> Any:
        if name in _SAMPLERS:
            require(
                super().__getattribute__("_inside"),
                f"noise is drawn by '{name}' outside of a mechanism's answer, in no call of `noise.once`",
            )
        return super().__getattribute__(name)
