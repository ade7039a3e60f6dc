"""Softmax regression on public rows, in plain floats: gradients, norms and a fit with any centre.

Private rows never come here: their gradients are `queries.SoftmaxGradient`, in exact integers, of which these
functions are the definition in real numbers.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize
from scipy.special import logsumexp, softmax

from dptransfer.arrays import Floats, Labels


def residuals(weights: Floats, rows: Floats, labels: Labels) -> Floats:
    """softmax(rows·weightsᵀ) − onehot(labels): (rows, classes)."""
    found: Floats = softmax(rows @ weights.T, axis=1)
    found[np.arange(len(rows)), labels] -= 1.0
    return found


def gradient_norms(residual: Floats, rows: Floats) -> Floats:
    """Norm of each example's gradient residual ⊗ row: the product of two norms."""
    norms: Floats = np.linalg.norm(residual, axis=1) * np.linalg.norm(rows, axis=1)
    return norms


def clipped_gradient(weights: Floats, rows: Floats, labels: Labels, clip: float = np.inf) -> Floats:
    """Sum over the rows of their gradients, each clipped to norm `clip`; (classes, dimension).

    >>> rows, labels = np.array([[3.0, 4.0]]), np.array([0])
    >>> clipped_gradient(np.zeros((2, 2)), rows, labels, clip=1.0).round(3)
    array([[-0.424, -0.566],
           [ 0.424,  0.566]])
    """
    residual = residuals(weights, rows, labels)
    norms = gradient_norms(residual, rows)
    scale = np.minimum(1.0, clip / np.maximum(norms, np.finfo(np.float64).tiny))
    return (residual * scale[:, None]).T @ rows


def fitted_softmax(rows: Floats, labels: Labels, centre: Floats, strength: float) -> Floats:
    """Argmin over W of the mean loss + ½·strength·‖W − centre‖²; (classes, dimension).

    A class without a row stays where the centre puts it, but for being pushed away from the others' rows.
    """

    def objective(flat: Floats) -> tuple[float, Floats]:
        weights = flat.reshape(centre.shape)
        logits = rows @ weights.T
        loss = float(np.mean(logsumexp(logits, axis=1) - logits[np.arange(len(rows)), labels]))
        away = weights - centre
        gradient = clipped_gradient(weights, rows, labels) / len(rows) + strength * away
        return loss + 0.5 * strength * float((away * away).sum()), gradient.ravel()

    found = minimize(objective, centre.ravel(), jac=True, method="L-BFGS-B", options={"maxiter": 100})
    return np.asarray(found.x, dtype=np.float64).reshape(centre.shape)


def fitted_to_chances(rows: Floats, chances: Floats, weights: Floats, strength: float) -> Floats:
    """Argmin over W of the weighted mean cross-entropy to soft labels + ½·strength·‖W‖²."""
    share = weights / weights.sum()

    def objective(flat: Floats) -> tuple[float, Floats]:
        fitted = flat.reshape(chances.shape[1], rows.shape[1])
        logits = rows @ fitted.T
        loss = float(share @ (logsumexp(logits, axis=1) - (chances * logits).sum(axis=1)))
        gradient = ((softmax(logits, axis=1) - chances) * share[:, None]).T @ rows + strength * fitted
        return loss + 0.5 * strength * float((fitted * fitted).sum()), gradient.ravel()

    start = np.zeros(chances.shape[1] * rows.shape[1])
    found = minimize(objective, start, jac=True, method="L-BFGS-B", options={"maxiter": 100})
    return np.asarray(found.x, dtype=np.float64).reshape(chances.shape[1], rows.shape[1])
