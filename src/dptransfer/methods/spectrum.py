"""Dividing by a noisy second moment: (matrix⁺ + ridge)⁻¹, where ⁺ sets negative eigenvalues to zero.

A second moment has no negative eigenvalues, so those of a noisy one are noise; and the ridge keeps what is
left of them from being divided by.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]


def solved(matrix: FloatArray, target: FloatArray, ridge: float) -> FloatArray:
    """(matrix⁺ + ridge)⁻¹ target, for one target."""
    values, vectors = _floored(matrix, ridge)
    solution: FloatArray = vectors @ ((vectors.T @ target) / values)
    return solution


def inverse(matrix: FloatArray, ridge: float) -> FloatArray:
    """(matrix⁺ + ridge)⁻¹ itself, for many targets."""
    values, vectors = _floored(matrix, ridge)
    inverted: FloatArray = (vectors / values) @ vectors.T
    return inverted


def _floored(matrix: FloatArray, ridge: float) -> tuple[FloatArray, FloatArray]:
    """Eigenvalues of matrix⁺ + ridge, and the eigenvectors."""
    values, vectors = np.linalg.eigh(matrix)
    return np.maximum(values, 0.0) + ridge, vectors
