"""Mean and principal axes of a public pool: computed once per pool, and kept in memory and on disk.

The mean and the second moment are sums over rows, taken in whole numbers: rows of norm 2²⁴ on the lattice are
rounded to steps of 2⁸, which leaves norms of at most 2¹⁶ + 64 and products below 2³³, so float64 holds the
sums of 2²⁰ rows and int64 those of 2³⁰. So they are the same in whatever pieces the pool is read, by whomever
and in whatever order.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dptransfer.base.types import Floats, Integers, Rows
from dptransfer.base.worker_env import usable_cores
from dptransfer.base.workers import pieces_of
from dptransfer.data.atomic_files import write_if_possible
from dptransfer.data.embeddings import PublicEmbeddings
from dptransfer.errors import DataError
from dptransfer.exact.chunks import one_blas_thread, side_by_side, slices
from dptransfer.exact.lattice import unit_lattice

_KEPT_IN_MEMORY = 4
_FINE_NORM, _NORM = 2**24, 2**16
_MOST_ROWS = 2**30
_ELEMENTS_AT_ONCE, _ROWS_AT_ONCE = 2**21, 2**20
_FORMAT = "axes-2"  # part of the file name, so that a change of the computation makes new files


@dataclass(frozen=True, eq=False)
class PrincipalAxes:
    """What a pool shows of the feature space.

    Attributes:
        root: whether square roots were taken first, which is so when no public feature is negative.
        mean: mean of the unit-norm rows.
        axes: orthonormal columns, by falling variance; as many as there are dimensions or, where the pool has
            far fewer rows than that, rows.
        variance: variance along each axis.
    """

    root: bool
    mean: Floats
    axes: Floats
    variance: Floats


_MEMORY: OrderedDict[str, PrincipalAxes] = OrderedDict()


def principal_axes(public: PublicEmbeddings) -> PrincipalAxes:
    """The pool's axes, from memory, from the cache folder, or computed."""
    key = public.fingerprint
    if key not in _MEMORY:
        file = cache_folder() / f"{_FORMAT}-{key}.safetensors"
        found = _read(file, *public.rows.shape)
        if found is None:
            found = _compute(public)
            _write(file, found)
        _MEMORY[key] = found
        if len(_MEMORY) > _KEPT_IN_MEMORY:
            _MEMORY.popitem(last=False)
    return _MEMORY[key]


def cache_folder() -> Path:
    """Where axes are kept between runs: `DPTRANSFER_CACHE`, or the user's cache folder."""
    given = os.environ.get("DPTRANSFER_CACHE")
    if given:
        return Path(given)
    from platformdirs import user_cache_path

    return user_cache_path("dptransfer")


def _compute(public: PublicEmbeddings) -> PrincipalAxes:
    """Public data: ordinary floats are fine for all but the sums."""
    rows = public.rows
    count, dimension = rows.shape
    if 2 * count <= dimension:  # far cheaper than a (dimension, dimension) matrix, and the same axes
        few = rows[:]
        root = bool((few >= 0).all())
        wide = _unit_floats(few, root)
        mean = wide.mean(axis=0)
        with one_blas_thread(count):
            _, lengths, across = np.linalg.svd(wide - mean, full_matrices=False)
        return PrincipalAxes(root, mean, across.T, np.maximum(lengths**2 / count, np.finfo(float).tiny))
    if count > _MOST_ROWS:
        raise DataError(
            f"The axes of a public pool are found from at most 2³⁰ rows; it has {count}. Use a part of it, "
            "or features=UnitNorm()."
        )
    sums = _sums(public, root=True)
    root = bool(len(sums))
    sums = sums if root else _sums(public, root=False)
    mean = sums[0] / (float(_NORM) * count)
    second = sums[1:] / (float(_NORM) ** 2 * count)
    with one_blas_thread(dimension):
        variance, axes = np.linalg.eigh(second - np.outer(mean, mean))
    order = np.argsort(-variance)
    return PrincipalAxes(root, mean, axes[:, order], np.maximum(variance[order], np.finfo(float).tiny))


def _sums(public: PublicEmbeddings, *, root: bool) -> Integers:
    """The sum of all rows and, below it, that of products; nothing where roots of negatives are asked for."""
    rows = public.rows
    total = np.zeros((rows.shape[1] + 1, rows.shape[1]), dtype=np.int64)
    work, pieces = Moments(rows, root), pieces_of(len(rows), rows.dtype.itemsize * rows.shape[1])
    if not len(work(slice(0, 1))):  # mostly the first row tells
        return total[:0]
    for _, part in public.workers.each(work, pieces, "piece of the public pool"):
        if not len(part):
            return total[:0]
        total += part
    return total


@dataclass(frozen=True, eq=False)
class Moments:
    """The sums over a piece of the pool, as `_sums` gives them; nothing where a root has no argument."""

    rows: Rows
    root: bool

    def __call__(self, piece: slice) -> Integers:
        """Of all rows of the piece, some at a time on every core."""
        dimension = self.rows.shape[1]
        total = np.zeros((dimension + 1, dimension), dtype=np.int64)
        parts = slices(piece, min(_ROWS_AT_ONCE, _ELEMENTS_AT_ONCE // dimension))
        for sums in side_by_side(self._of_part, parts, usable_cores()):
            if sums is None:
                return total[:0]
            total[0] += sums[0].astype(np.int64)
            total[1:] += sums[1].astype(np.int64)
        return total

    def _of_part(self, piece: slice) -> tuple[Floats, Floats] | None:
        part = self.rows[piece]
        if self.root and not (part >= 0).all():
            return None
        unit = np.rint(unit_lattice(part, _FINE_NORM, root=self.root) * (_NORM / _FINE_NORM))
        return unit.sum(axis=0), unit.T @ unit


def _unit_floats(rows: Rows, root: bool) -> Floats:
    """Rows of unit norm, of their square roots where `root` says so."""
    # By the largest entry first: squares of very large or very small entries would leave the floats.
    wide = rows.astype(np.float64)
    wide /= np.maximum(np.abs(wide).max(axis=1, keepdims=True), np.finfo(np.float64).tiny)
    wide = np.sqrt(wide) if root else wide
    wide /= np.maximum(np.linalg.norm(wide, axis=1, keepdims=True), np.finfo(np.float64).tiny)
    return wide


def _read(file: Path, count: int, dimension: int) -> PrincipalAxes | None:
    """What the cache holds; a file that is missing or damaged is as good as none."""
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    with suppress(OSError, SafetensorError, KeyError, ValueError):
        if not file.is_file():
            return None
        arrays = load_file(file)
        mean, axes, variance = arrays["mean"], arrays["axes"], arrays["variance"]
        fits = mean.shape == (dimension,) and axes.shape == (dimension, len(variance))
        fits = fits and len(variance) >= min(count, dimension)
        if fits and all(np.isfinite(array).all() for array in (mean, axes, variance)):
            return PrincipalAxes(bool(arrays["root"][0]), mean, axes, variance)
    return None


def _write(file: Path, found: PrincipalAxes) -> None:
    """Keep for later, if possible."""
    from safetensors.numpy import save

    parts = {name: np.ascontiguousarray(getattr(found, name)) for name in ("mean", "axes", "variance")}
    write_if_possible(file, save({"root": np.array([found.root]), **parts}))
