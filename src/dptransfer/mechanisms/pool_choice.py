"""Select candidates from a pool of any size: count scores in pieces, draw from the counts, look up.

1. Every piece of the pool is scored by whoever works (`dptransfer.base`), and comes back as the bins of
   its scores, some kilobytes for each class. That is a pure function of the piece and the private rows.
2. Here the counts of all pieces are added up, and choices are drawn from them alone (`noise.race`). Whom a
   choice wants to see is found by counter: the bin's candidates are numbered in order of position, so the
   counts say in which piece a number lies. Those pieces are scored again, for the classes that asked.

No noise is drawn where scores are computed, so a piece that is done twice, by a worker that took over or by
a run that goes on, is no second draw. And since neither the sums of counts nor the order of positions depends
on the pieces, the choice is the same whoever worked, and however the pool is cut.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from dptransfer.base import progress, worker_env
from dptransfer.base.types import AnyArray, Integers, Tensor
from dptransfer.base.workers import ThisProcess, Workers, pieces_of
from dptransfer.errors import DataError
from dptransfer.exact import chunks, cuda
from dptransfer.noise import NoiseSource, race
from dptransfer.noise.race import Candidate, Choice, Lookup, ScoreBins
from dptransfer.queries.similarity import PoolScores

Scores: TypeAlias = "Integers | Tensor"
"""(candidates, classes) scores, where they were computed: as an array, or on a device."""
ScoredPool: TypeAlias = "PoolScores | ScoreTable"
"""Candidates of a pool, with scores that are computed a piece at a time."""

_SCORES_AT_ONCE = 2**23
_SLAB_BYTES = 2**26
_COLUMNS = 8  # eight int64 are one line of the cache
_TOP = -1  # stands for a level where one of the largest scores is listed
_GOES_ON = "The charge stands: restore the pool, and fit again in the same workspace, if there was one."


@dataclass(frozen=True, eq=False)
class ScoreTable:
    """Scores of all candidates in one array.

    Attributes:
        table: (candidates, classes).
        workers: who counts them.
        candidate_bytes: of a candidate that had to be read for its scores; pieces are as they would be then,
            so that a run goes on with another engine.
    """

    table: Integers
    workers: Workers = ThisProcess()  # noqa: RUF009  # it has no state
    candidate_bytes: int | None = None

    @property
    def classes(self) -> int:
        """Its columns."""
        return int(self.table.shape[1])

    @property
    def bytes_each(self) -> int:
        """Of a row."""
        return self.candidate_bytes or 8 * self.classes

    @property
    def at_hand(self) -> Workers:
        """The same."""
        return self.workers

    def __len__(self) -> int:
        return len(self.table)

    def scores(self, piece: slice) -> Integers:
        """Those of the piece."""
        return self.table[piece]

    def only(self, wanted: Sequence[int]) -> ScoreTable:
        """Some columns."""
        return ScoreTable(self.table[:, list(wanted)])

    def require_unchanged(self) -> None:
        """The scores are in memory."""


def choose_candidates(
    scored: ScoredPool, choice: Callable[[ScoreBins], Choice], scale: float, size: int, noise: NoiseSource
) -> Integers:
    """(classes, size) positions of the candidates chosen for each class.

    Args:
        scored: the candidates.
        choice: begins the choice for one class.
        scale: width of the noise.
        size: how many candidates are chosen for each class.
        noise: keeps the counts of pieces where a run may have to go on.
    """
    pieces = choice_pieces(scored, size)
    work = BinCounter(scored, scale, size)

    def count(missing: Sequence[int]) -> Iterator[tuple[int, AnyArray]]:
        todo = [pieces[number] for number in missing]
        for number, counted in scored.workers.each(work, todo, "piece of the public pool"):
            yield missing[number], counted

    with unchanged_pool(scored):  # all of it: which files are looked into from here on is private
        counts = _Counts(noise.keep_pieces("scores", len(pieces), count), size)
    choices = [choice(counts.together(own)) for own in range(scored.classes)]
    results: dict[int, tuple[int, ...]] = {}
    wanted = _advanced(choices, dict.fromkeys(range(scored.classes)), results)
    while wanted:
        wanted = _advanced(choices, _seen(scored, pieces, counts, wanted), results)
    return np.array([results[own] for own in range(scored.classes)], dtype=np.int64)


@contextmanager
def unchanged_pool(scored: ScoredPool) -> Iterator[None]:
    """Add to errors of the pool, and to a pool that changed inside the block, that the charge stands."""
    try:
        yield
        scored.require_unchanged()
    except DataError as problem:
        raise DataError(f"{problem} {_GOES_ON}") from problem


def choice_pieces(scored: ScoredPool, size: int) -> list[slice]:
    """Pieces whose counts, some ten kilobytes for each class, take less than a gigabyte together.

    Large sets need as many times as many bins as they have more widths below M than small ones.
    """
    bins = scored.classes * race.widths_below(size) // race.widths_below(1)
    return pieces_of(len(scored), scored.bytes_each, min(1024, max(16, 2**16 // bins)))


@dataclass(frozen=True, eq=False)
class BinCounter:
    """Counts the scores of a piece by bins: columns of (class, level, index, count), and of the largest."""

    scored: ScoredPool
    scale: float
    size: int

    def __call__(self, piece: slice) -> Integers:
        """The counts of a piece."""
        lots = [self._bins(scores) for scores in score_slabs(self.scored, piece)]
        by_class = enumerate(zip(*lots, strict=True))
        return np.concatenate([_packed(own, ScoreBins.merge(bins)) for own, bins in by_class], axis=1)

    def _bins(self, scores: Scores) -> list[ScoreBins]:
        if not isinstance(scores, np.ndarray):  # pragma: no cover — GPU
            return race.bins_on_device(scores, self.scale, self.size)

        def of_columns(first: int) -> list[ScoreBins]:
            columns = np.ascontiguousarray(scores[:, first : first + _COLUMNS].T)
            return [ScoreBins.of(column, self.scale, self.size) for column in columns]

        lots = chunks.side_by_side(of_columns, range(0, scores.shape[1], _COLUMNS), worker_env.usable_cores())
        return [bins for lot in lots for bins in lot]


@dataclass(frozen=True, eq=False)
class _Finding:
    """Finds candidates of a piece: for each its position and score, one after the other."""

    scored: ScoredPool

    def __call__(self, asked: tuple[slice, Sequence[tuple[int, Lookup]]]) -> Integers:
        piece, wanted = asked
        classes = sorted({own for own, _ in wanted})
        found: list[list[tuple[int, int]]] = [[] for _ in wanted]
        passed, start = [0] * len(wanted), piece.start
        for scores in score_slabs(self.scored.only(classes), piece):
            for place, (own, wish) in enumerate(wanted):
                column = cuda.on_host(scores[:, classes.index(own)])
                rest = tuple(number - passed[place] for number in wish.numbers if number >= passed[place])
                seen, inside = race.find_candidates(wish._replace(numbers=rest), column)
                found[place] += [(one.position + start, one.score) for one in seen]
                passed[place] += inside
            start += len(scores)
        return np.array([one for lot in found for one in lot])


def score_slabs(scored: ScoredPool, piece: slice) -> Iterator[Scores]:
    """The scores of a piece, so many at a time that neither rows nor scores take much memory."""
    step = max(1, min(_SLAB_BYTES // scored.bytes_each, _SCORES_AT_ONCE // scored.classes))
    for start in range(piece.start, piece.stop, step):
        yield scored.scores(slice(start, min(start + step, piece.stop)))


def _packed(own: int, bins: ScoreBins) -> Integers:
    counted = np.stack([np.full_like(bins.levels, own), bins.levels, bins.indices, bins.counts])
    listed = [(own, _TOP, score, 0) for score in bins.top]
    return np.concatenate([counted, np.array(listed, dtype=np.int64).T], axis=1)


class _Counts:
    """Counts of all pieces, in the order of classes; they may be gigabytes, and are not copied."""

    def __init__(self, packed: Sequence[AnyArray], size: int) -> None:
        self._packed, self._size = packed, size

    def _of_class(self, own: int) -> Sequence[Integers]:
        """Numbers of pieces, and below each what it has of a class: levels, indices and counts."""
        parts = [part[1:, slice(*np.searchsorted(part[0], (own, own + 1)))] for part in self._packed]
        numbers = np.repeat(np.arange(len(parts)), [part.shape[1] for part in parts])
        return numbers, *np.concatenate(parts, axis=1)

    def together(self, own: int) -> ScoreBins:
        """The bins of a class over all pieces."""
        _, levels, indices, counts = self._of_class(own)
        tops = levels == _TOP
        top = np.sort(indices[tops])[: -self._size - 1 : -1]
        return ScoreBins.coarsen(top, self._size, levels[~tops], indices[~tops], counts[~tops])

    def by_piece(self, own: int, wanted: Lookup) -> Integers:
        """How many candidates each piece has in a bin; a piece's own bins are as wide or narrower."""
        pieces, levels, indices, counts = self._of_class(own)
        inside = (levels != _TOP) & (levels <= wanted.level)
        inside[inside] = indices[inside] >> (wanted.level - levels[inside]) == wanted.place
        found = np.zeros(len(self._packed), dtype=np.int64)
        np.add.at(found, pieces[inside], counts[inside])
        return found


def _advanced(
    choices: Sequence[Choice],
    seen: dict[int, list[list[Candidate]]] | dict[int, None],
    results: dict[int, tuple[int, ...]],
) -> dict[int, Sequence[Lookup]]:
    """Resume choices with the candidates they asked for; collect their next requests, or their results."""
    wanted = {}
    for own, found in seen.items():
        try:
            wanted[own] = next(choices[own]) if found is None else choices[own].send(found)
        except StopIteration as end:
            results[own] = end.value
    return wanted


def _seen(
    scored: ScoredPool, pieces: Sequence[slice], counts: _Counts, wanted: dict[int, Sequence[Lookup]]
) -> dict[int, list[list[Candidate]]]:
    """Candidates that choices asked for, found in the pieces where they are."""
    asked = defaultdict(list)  # by piece: (class, which of its wishes, the part of it that lies there)
    for own, wishes in wanted.items():
        for which, wish in enumerate(wishes):
            ends = np.cumsum(counts.by_piece(own, wish))
            numbers = np.array(wish.numbers)
            places = np.searchsorted(ends, numbers, side="right")
            for place in np.unique(places):
                before = int(ends[place - 1]) if place else 0
                part = tuple((numbers[places == place] - before).tolist())
                asked[int(place)].append((own, which, wish._replace(numbers=part)))
    order = sorted(asked)
    todo = [(pieces[place], [(own, wish) for own, _, wish in asked[place]]) for place in order]
    try:
        with progress.reported_to(lambda *_: None):  # how many pieces, and how often, is private
            found = dict(scored.at_hand.each(_Finding(scored), todo, "piece of the public pool"))
    except DataError:  # names a file, and which one is private
        raise _changed() from None
    result: dict[int, list[list[Candidate]]] = {own: [[] for _ in wishes] for own, wishes in wanted.items()}
    for number, place in enumerate(order):
        parts = asked[place]
        if len(found[number]) != sum(len(wish.numbers) for _, _, wish in parts):
            raise _changed()
        rest = iter(found[number].tolist())
        for own, which, wish in parts:
            result[own][which] += [Candidate(*next(rest)) for _ in wish.numbers]
    return result


def _changed() -> DataError:
    return DataError(f"A public pool must stay as it is while it is read; it was changed. {_GOES_ON}")
