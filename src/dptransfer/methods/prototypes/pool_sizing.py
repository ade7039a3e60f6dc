"""Estimate pieces, bytes, time and memory of work on a public pool, by a trial on a part of it.

Nothing private is read: private rows are made up, as many as are declared. Time is measured on slices from
the middle of the pool, for a second or two, and taken in proportion; from the disk or from its cache, as they
happen to be.
"""

from __future__ import annotations

import hashlib
import math
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from dptransfer.base import worker_env, workers
from dptransfer.data import Facts, PublicEmbeddings, emb_folder, sharded_rows
from dptransfer.exact import chunks, public_map
from dptransfer.exact.capped_similarity import GRID_NORM
from dptransfer.mechanisms import LaplaceNoisyMax, Selection
from dptransfer.mechanisms.pool_choice import BinCounter, choice_pieces
from dptransfer.methods.method import EmbeddingMethod, Plan
from dptransfer.methods.prototypes.pool_selection import PoolSelection
from dptransfer.noise import SecureNoise
from dptransfer.queries.similarity import GridPool, PoolScores, SimilarityScores

PRIVATE_ROWS = 10_000
"""So many are made up where no size is declared."""

_MOST_MADE_UP = 4096  # with caps each takes the same time, and the rest is multiplied
_ANY_CAP = 1.99
_LONG_ENOUGH = 0.25  # seconds of a trial
_HASHED_AT_ONCE = 2**24


@dataclass(frozen=True)
class Pass:
    """One pass over the pool, or over a part of it.

    Attributes:
        name: what is done.
        reads: bytes.
        seconds: about how long it takes.
    """

    name: str
    reads: int
    seconds: float


@dataclass(frozen=True)
class PoolSizing:
    """Estimated effort of a fit that reads a whole pool.

    Attributes:
        rows: of the pool.
        pieces: in how many parts it is worked on.
        private_rows: for how many it was measured.
        processes: that work side by side, this one included.
        cores: on which they work.
        passes: in order.
        memory: bytes of each process, about; None where the system does not tell.
    """

    rows: int
    pieces: int
    private_rows: int
    processes: int
    cores: int
    passes: tuple[Pass, ...]
    memory: int | None

    @property
    def seconds(self) -> float:
        """Of all passes."""
        return sum(one.seconds for one in self.passes)

    @property
    def reads(self) -> int:
        """Bytes of all passes."""
        return sum(one.reads for one in self.passes)


def pool_sizing(plan: Plan, facts: Facts, public: PublicEmbeddings) -> PoolSizing | None:
    """Estimate the effort of a fit with this pool; None if the pool is one piece, or not in files.

    Args:
        plan: of the fit; `auto` has chosen by then.
        facts: what is declared; made-up private rows are of its classes, and as many as its size.
        public: the pool, with whoever will work on it.
    """
    rows: object = public.rows
    method = plan.method
    if not isinstance(rows, sharded_rows.ShardedRows) or not isinstance(method, EmbeddingMethod):
        return None
    row_bytes = rows.stored.itemsize * public.dimension
    trial = _Trial(rows, getattr(public.workers, "cores", worker_env.usable_cores()))

    def digest(piece: slice) -> None:  # of files whose checksums are on record, or of rows that have none yet
        found = hashlib.sha256()
        step = max(1, _HASHED_AT_ONCE // (8 * rows.shape[1]))
        for start in range(piece.start, piece.stop, step):
            part = slice(start, min(start + step, piece.stop))
            found.update(np.ascontiguousarray(rows.read(part, as_stored=public.on_record)).data)

    def draw_noise(piece: slice) -> None:  # for each candidate, and class
        for _ in facts.classes:
            SecureNoise().discrete_laplace(2.0**20, (piece.stop - piece.start,))

    hashing = trial.alone(digest)
    if public.on_record:  # file by file; a fingerprint of rows is one chain
        hashing /= min(emb_folder.READERS, worker_env.usable_cores(), len(rows.files))
    passes = [Pass("checking", len(rows) * row_bytes, hashing)]
    pieces = workers.pieces_of(len(rows), rows.dtype.itemsize * public.dimension)
    private_rows = facts.declared_size or PRIVATE_ROWS
    if isinstance(method.features, public_map.PublicMap):
        mapping = trial.shared(public_map.Moments(public.rows, root=False))
        passes.append(Pass("public map", len(rows) * row_bytes, mapping))
    if isinstance(method, PoolSelection):
        scored, times = _scoring(plan, method, facts, public, private_rows)
        counter = BinCounter(scored, float(GRID_NORM[method.precision] ** 2), getattr(method, "k", 1))
        pieces = choice_pieces(scored, counter.size)
        seconds = times * trial.shared(counter, scored.threads)
        in_order = getattr(method, "mechanism", None) == LaplaceNoisyMax.name
        if in_order:  # all of it here, and nothing is looked up
            seconds *= trial.cores / worker_env.usable_cores()
            seconds += trial.alone(draw_noise)
        passes.append(Pass("scoring", len(rows) * row_bytes, seconds))
        if not in_order:
            # Each member of each class is looked up in a piece; with caps in a class's share of scoring.
            asked = min(1.0, len(facts.classes) * counter.size / len(pieces))
            seconds *= min(1.0, counter.size / len(pieces)) if method.is_capped else asked
            passes.append(Pass("looking up", math.ceil(asked * len(rows)) * row_bytes, seconds))
    if len(pieces) < 2:
        return None
    here = isinstance(public.workers, workers.ThisProcess)
    processes = 1 if here else 1 + (getattr(public.workers, "workers", None) or trial.cores)
    return PoolSizing(len(rows), len(pieces), private_rows, processes, trial.cores, tuple(passes), _memory())


def _scoring(
    plan: Plan, method: PoolSelection, facts: Facts, public: PublicEmbeddings, private_rows: int
) -> tuple[PoolScores, float]:
    """Scores against made-up private rows, and how many times as long it takes for as many as there are."""
    width = method.outline(facts, public).dimension
    few = PublicEmbeddings(public.rows[: width + 1], encoder=public.encoder, vocabulary=public.vocabulary)
    selection = plan.single_step(Selection)
    # Another map than that of all rows, and as fast.
    features = method.narrow(method.prepare(facts, few), selection)
    made_up = min(private_rows, _MOST_MADE_UP)
    pool = GridPool(features, public.rows, method.precision)
    # Any cap takes as long.
    caps = method.lowest or 0.0, _ANY_CAP if method.highest is None else method.highest
    asked = SimilarityScores(features, pool, len(facts.classes), *caps, method.precision, method.device)
    rows = np.random.default_rng(0).normal(size=(made_up, facts.dimension))
    scored = asked.pool_scores(rows, np.arange(made_up) % len(facts.classes), None)
    return scored, private_rows / made_up if method.is_capped else 1.0


class _Trial:
    """Measures work on a slice of the pool, and says how long all of it would take."""

    def __init__(self, rows: sharded_rows.ShardedRows, cores: int) -> None:
        self.cores, self._count, self._middle = cores, len(rows), len(rows) // 2

    def alone(self, work: Callable[[slice], object]) -> float:
        """Seconds in one process."""
        work(slice(self._middle, self._middle + 1))  # what is prepared once is no part of it
        count = 256
        while True:
            part = slice(self._middle, min(self._count, self._middle + count))
            began = time.perf_counter()
            work(part)
            seconds = time.perf_counter() - began
            if seconds > _LONG_ENOUGH or part.stop == self._count:
                return seconds / (part.stop - part.start) * self._count
            count *= 2

    def shared(self, work: Callable[[slice], object], threads: int = 1) -> float:
        """Seconds of those who work side by side, if each core is as fast as one here.

        Args:
            work: what they do.
            threads: how many pieces are worked on at a time here, on all cores.
        """

        def together(part: slice) -> None:
            each = -(-(part.stop - part.start) // threads)
            starts = range(part.start, part.stop, each)
            for _ in chunks.side_by_side(work, [slice(s, min(s + each, part.stop)) for s in starts], threads):
                pass

        return self.alone(together) * worker_env.usable_cores() / self.cores


def _memory() -> int | None:
    """The most that this process has had so far, a trial included, where the system tells."""
    try:
        import resource
    except ImportError:  # as on Windows
        return None
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
