"""Dividing by a noisy second moment: (matrix⁺ + ridge)⁻¹, where ⁺ sets negative eigenvalues to zero.

A second moment has no negative eigenvalues, so those of a noisy one are noise; and the ridge keeps what is
left of them from being divided by.
"""

from __future__ import annotations

import numpy as np

from dptransfer.arrays import Floats
from dptransfer.compute.threads import one_blas_thread


def solved(matrix: Floats, target: Floats, ridge: float) -> Floats:
    """(matrix⁺ + ridge)⁻¹ target, for one target."""
    values, vectors = _floored(matrix, ridge)
    return vectors @ ((vectors.T @ target) / values)


def inverse(matrix: Floats, ridge: float) -> Floats:
    """(matrix⁺ + ridge)⁻¹ itself, for many targets."""
    values, vectors = _floored(matrix, ridge)
    return (vectors / values) @ vectors.T


def _floored(matrix: Floats, ridge: float) -> tuple[Floats, Floats]:
    """Eigenvalues of matrix⁺ + ridge, and the eigenvectors."""
    with one_blas_thread(len(matrix)):
        values, vectors = np.linalg.eigh(matrix)
    return np.maximum(values, 0.0) + ridge, vectors
