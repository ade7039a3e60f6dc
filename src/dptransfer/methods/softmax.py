"""Softmax regression on public rows, in plain floats: gradients, norms and a fit with any centre.

Private rows never come here: their gradients are `queries.SoftmaxGradient`, in exact integers, of which these
functions are the definition in real numbers.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import logsumexp, softmax

from dptransfer.data.embeddings import Labels

FloatArray = NDArray[np.float64]


def residuals(weights: FloatArray, rows: FloatArray, labels: Labels) -> FloatArray:
    """softmax(rows·weightsᵀ) − onehot(labels): (rows, classes)."""
    found: FloatArray = softmax(rows @ weights.T, axis=1)
    found[np.arange(len(rows)), labels] -= 1.0
    return found


def gradient_norms(residual: FloatArray, rows: FloatArray) -> FloatArray:
    """Norm of each example's gradient residual ⊗ row: the product of two norms."""
    norms: FloatArray = np.linalg.norm(residual, axis=1) * np.linalg.norm(rows, axis=1)
    return norms


def clipped_gradient(
    weights: FloatArray, rows: FloatArray, labels: Labels, clip: float = np.inf
) -> FloatArray:
    """Sum over the rows of their gradients, each clipped to norm `clip`; (classes, dimension).

    >>> rows, labels = np.array([[3.0, 4.0]]), np.array([0])
    >>> clipped_gradient(np.zeros((2, 2)), rows, labels, clip=1.0).round(3)
    array([[-0.424, -0.566],
           [ 0.424,  0.566]])
    """
    residual = residuals(weights, rows, labels)
    norms = gradient_norms(residual, rows)
    scale = np.minimum(1.0, clip / np.maximum(norms, np.finfo(np.float64).tiny))
    gradient: FloatArray = (residual * scale[:, None]).T @ rows
    return gradient


def fitted_softmax(rows: FloatArray, labels: Labels, centre: FloatArray, strength: float) -> FloatArray:
    """Argmin over W of the mean loss + ½·strength·‖W − centre‖²; (classes, dimension).

    A class without a row stays where the centre puts it, but for being pushed away from the others' rows.
    """

    def objective(flat: FloatArray) -> tuple[float, FloatArray]:
        weights = flat.reshape(centre.shape)
        logits = rows @ weights.T
        loss = float(np.mean(logsumexp(logits, axis=1) - logits[np.arange(len(rows)), labels]))
        away = weights - centre
        gradient = clipped_gradient(weights, rows, labels) / len(rows) + strength * away
        return loss + 0.5 * strength * float((away * away).sum()), gradient.ravel()

    found = minimize(objective, centre.ravel(), jac=True, method="L-BFGS-B", options={"maxiter": 100})
    return np.asarray(found.x, dtype=np.float64).reshape(centre.shape)
