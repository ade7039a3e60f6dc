"""Mean and principal axes of a public pool: computed once per pool, and kept in memory and on disk."""

from __future__ import annotations

import os
from collections import OrderedDict
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dptransfer.arrays import Floats, Rows
from dptransfer.data.embeddings import PublicEmbeddings

_KEPT_IN_MEMORY = 4
_ROWS_AT_ONCE = 8192
_FORMAT = "axes-1"  # part of the file name, so that a change of the computation makes new files


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
    """Public data: ordinary floats are fine here."""
    rows = public.rows
    root = bool((rows >= 0).all())
    count, dimension = rows.shape
    if 2 * count <= dimension:  # far cheaper than a (dimension, dimension) matrix, and the same axes
        wide = _unit(rows, root).astype(np.float64)
        mean = wide.mean(axis=0)
        _, lengths, across = np.linalg.svd(wide - mean, full_matrices=False)
        return PrincipalAxes(root, mean, across.T, np.maximum(lengths**2 / count, np.finfo(float).tiny))
    mean = np.zeros(dimension)
    second = np.zeros((dimension, dimension))
    for start in range(0, count, _ROWS_AT_ONCE):
        unit = _unit(rows[start : start + _ROWS_AT_ONCE], root)
        mean += unit.sum(axis=0, dtype=np.float64)
        second += unit.T @ unit
    mean /= count
    variance, axes = np.linalg.eigh(second / count - np.outer(mean, mean))
    order = np.argsort(-variance)
    return PrincipalAxes(root, mean, axes[:, order], np.maximum(variance[order], np.finfo(float).tiny))


def _unit(rows: Rows, root: bool) -> Rows:
    """Rows of unit norm in float32, of their square roots where `root` says so."""
    # By the largest entry first: squares of very large or very small entries would leave float32.
    peak = np.maximum(np.abs(rows).max(axis=1, keepdims=True), np.finfo(rows.dtype).tiny)
    unit = (rows / peak).astype(np.float32)
    unit = np.sqrt(unit) if root else unit
    norms = np.maximum(np.linalg.norm(unit, axis=1, keepdims=True), np.finfo(np.float32).tiny)
    return np.asarray(unit / norms)


def _read(file: Path, count: int, dimension: int) -> PrincipalAxes | None:
    """What the cache holds; a file that is missing or damaged is as good as none."""
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    if not file.is_file():
        return None
    with suppress(OSError, SafetensorError, KeyError, ValueError):
        arrays = load_file(file)
        mean, axes, variance = arrays["mean"], arrays["axes"], arrays["variance"]
        fits = mean.shape == (dimension,) and axes.shape == (dimension, len(variance))
        fits = fits and len(variance) >= min(count, dimension)
        if fits and all(np.isfinite(array).all() for array in (mean, axes, variance)):
            return PrincipalAxes(bool(arrays["root"][0]), mean, axes, variance)
    return None


def _write(file: Path, found: PrincipalAxes) -> None:
    """Keep for later; a cache that cannot be written costs time, nothing else."""
    from safetensors.numpy import save_file

    arrays = {
        "root": np.array([found.root]),
        "mean": found.mean,
        "axes": np.ascontiguousarray(found.axes),
        "variance": found.variance,
    }
    partial = file.with_name(f"{file.name}.{os.getpid()}")
    with suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True)
        try:
            save_file(arrays, partial)
            partial.replace(file)
        finally:
            partial.unlink(missing_ok=True)
