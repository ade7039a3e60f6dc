"""A public map around the private rows' own centre: post-processing of a released sum, free in privacy.

A map centred at the pool's mean leaves in every private row what all private rows have in common and the pool
has not: of rows of unit norm that part says nothing about classes, and its share of the norm is signal lost.
So a small share of the budget releases a sum of the rows before they are centred, and the map is moved there.

The sum weights classes so that none outweighs the typical one: the mean of all rows of a long tail is nearly
the mean of its largest class, and rows centred there would have lost what tells that class from the others.

The shift is shrunk, axis by axis, by as much as the noise asks for: with b_j the observed shift along axis j
of the map, and v_j the variance of its noise, b_j ~ N(0, t + v_j), t maximises the evidence, and the estimate
is b_j·t/(t + v_j). If all of it may be noise, t is 0 and the pool's mean stays.
"""

from __future__ import annotations

import numpy as np

from dptransfer.arrays import Floats
from dptransfer.features import FittedPublicMap

# Of the squared shift, all axes together; a shift of mapped rows is hardly longer than the rows.
_ENERGIES = np.array([0.0, *np.geomspace(1e-4, 1.0, 40)])


def class_weights(counts: Floats) -> Floats:
    """1 for classes up to the typical size, the geometric mean of all; less in proportion for larger ones.

    >>> class_weights(np.array([10.0, 100.0, 1000.0]))
    array([1. , 1. , 0.1])
    """
    weights: Floats = np.minimum(1.0, np.exp(np.log(counts).mean()) / counts)
    return weights


def recentred(features: FittedPublicMap, total: Floats, size: float, scale: float) -> FittedPublicMap:
    """The map around total ÷ size, as far as that can be told from noise.

    Args:
        features: the map around the pool's mean.
        total: released sum of rows, each as `features.uncentred` makes them, times its weight.
        size: sum of the weights.
        scale: standard deviation of the noise of each coordinate of the sum.
    """
    axes = features.axis_vectors()
    stretch = np.linalg.norm(axes, axis=0)
    observed = (total / size - features.centre()) @ axes
    noise = (stretch * scale / size) ** 2
    shrunk = observed * _trusted(observed, noise)
    # Axes are orthogonal, so dividing by the squared stretch leads back from them.
    return features.recentred(features.centre() + axes @ (shrunk / np.maximum(stretch**2, 1e-12)))


def _trusted(observed: Floats, noise: Floats) -> Floats:
    """Which part of each observed shift is likely no noise."""
    energies = _ENERGIES / len(observed)
    variance = energies[:, None] + noise
    evidence = -0.5 * (observed**2 / variance + np.log(variance)).sum(axis=1)
    energy = energies[evidence.argmax()]
    trusted: Floats = energy / (energy + noise)
    return trusted
