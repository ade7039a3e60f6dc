"""An analyst who looks at an answer before choosing the next request; what that is worth is computed.

Every step is realised at its worst case by one canary row, so its answer has one of two known laws. The value
of a choice is the mean, over the first answer under P, of the best δ that a granted continuation reaches.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import norm

from dptransfer.privacy import BestOfManyEvent, GaussianEvent, SampledGaussianEvent, SelectionEvent

from .samples import ADD

WITH, WITHOUT = 0, 1  # which of the two data sets is P


@dataclass(frozen=True)
class Kind:
    """A family of steps: its event by strength (larger is dearer), the loss of its worst pair, its curve."""

    event: Callable[[float], Any]
    losses: Callable[[float, int], tuple[Any, Any]]
    weakest: float = 1e-4
    strongest: float = 20.0
    tolerance: float = 1e-4

    def curve(self, strength, epsilons, direction):
        """δ at each ε, of any sign, of the worst pair: the mean of (1 − e^(ε − loss))₊ under P."""
        losses, masses = self.losses(strength, direction)
        return np.array([(masses * np.maximum(-np.expm1(e - losses), 0)).sum() for e in epsilons])


def gaussian_losses(strength, direction):
    x = np.linspace(-12, 12, 1201)
    masses = norm.pdf(x)
    return strength**2 / 2 + strength * x, masses / masses.sum()


def sampled_losses(rate):
    def losses(strength, direction):
        z = 1 / strength
        t = np.concatenate([np.linspace(-12 * z, 12 * z, 1201), np.linspace(1 - 12 * z, 1 + 12 * z, 1201)])
        t = np.unique(t)
        edges = np.concatenate([[-np.inf], (t[1:] + t[:-1]) / 2, [np.inf]])
        without = np.diff(norm.cdf(edges, 0, z))
        mixed = (1 - rate) * without + rate * np.diff(norm.cdf(edges, 1, z))
        return two_laws(mixed, without, direction)

    return losses


def two_laws(p, q, direction):
    p, q = (np.asarray(law, dtype=float) for law in ((p, q) if direction == WITH else (q, p)))
    seen = p > 0
    with np.errstate(divide="ignore"):
        return np.log(p[seen]) - np.log(q[seen]), p[seen]


def exponential_losses(strength, direction):
    """Two candidates whose scores are equal without the row: bounded range, reached."""
    chance = 1 / (1 + math.exp(-strength))
    return two_laws([chance, 1 - chance], [0.5, 0.5], direction)


def flip_losses(strength, direction):
    """Permute-and-flip on two candidates, as it really is."""
    lower = math.exp(-strength) / 2
    return two_laws([1 - lower, lower], [0.5, 0.5], direction)


def response_losses(strength, direction):
    """Randomised response, the worst case of pure ε: nobody's sampler here, but what the event allows."""
    chance = 1 / (1 + math.exp(-strength))
    return two_laws([chance, 1 - chance], [1 - chance, chance], direction)


def selection(bounded, name):
    return lambda strength: SelectionEvent(strength, ADD, bounded, name)


KINDS = {
    "gaussian": Kind(lambda s: GaussianEvent(1 / s, ADD), gaussian_losses),
    "exponential": Kind(selection(True, "exponential"), exponential_losses),
    "permute-and-flip": Kind(selection(False, "permute-and-flip"), flip_losses),
    "pure": Kind(selection(False, "permute-and-flip"), response_losses),
    **{
        f"sampled {rate:g}": Kind(
            lambda s, rate=rate: SampledGaussianEvent(1 / s, rate, 1, ADD),
            sampled_losses(rate),
            weakest=0.2,
            strongest=6.0,
            tolerance=1e-2,
        )
        for rate in (1e-4, 1e-3, 1e-2)
    },
}


def tuned(strength):
    """A search whose trials are Gaussian; no worst pair of it is known, so it is granted or refused only."""
    return BestOfManyEvent(((GaussianEvent(1 / strength, ADD),),), 5, 1.0)


def strongest(kind, granted):
    """The strongest step of a kind that `granted` lets through; None if it lets none."""
    low, high = kind.weakest, kind.strongest
    if not granted([kind.event(low)]):
        return None
    while high > low * (1 + kind.tolerance):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if granted([kind.event(middle)]) else (low, middle)
    return low


def adaptive_delta(first, first_strength, options, epsilon):
    """δ at ε of the first step and then the option that hurts most given its answer; and of each alone."""
    found = []
    for direction in (WITH, WITHOUT):
        losses, masses = first.losses(first_strength, direction)
        after = np.array([kind.curve(strength, epsilon - losses, direction) for kind, strength in options])
        found.append(((masses * after.max(axis=0)).sum(), (masses * after).sum(axis=1).max()))
    return tuple(max(column) for column in zip(*found, strict=True))


def best_analyst(past, spent, names, grants, epsilon, direction, more, fractions=(1.0,)):
    """A function of the loss so far: the δ that an analyst reaches who may make `more` requests after `past`.

    Before each request everything answered so far is looked at, and what hurts most is asked for: of each
    kind as much as is granted, or a fraction of it, or nothing more. `spent` is the grid of losses.
    """
    best = np.maximum(-np.expm1(epsilon - spent), 0)
    if more == 0:
        return best
    for name in names:
        kind = KINDS[name]
        most = strongest(kind, lambda new: grants([*past, new]))
        for fraction in fractions if most is not None else ():
            losses, masses = kind.losses(fraction * most, direction)
            if more == 1:
                after = kind.curve(fraction * most, epsilon - spent, direction)
            else:
                asked = [*past, [kind.event(fraction * most)]]
                later = best_analyst(asked, spent, names, grants, epsilon, direction, more - 1, fractions)
                after = sum(
                    mass * np.interp(spent + loss, spent, later)
                    for loss, mass in zip(losses, masses, strict=True)
                )
            best = np.maximum(best, after)
    return best


def delta_of_analyst(strength, names, grants, epsilon, more, fractions=(1.0,)):
    """δ at ε of a Gaussian step and `more` requests, chosen by all answers before; the worse direction.

    The first step makes the law of the loss smooth, so that a grid of losses does for what follows.
    """
    found, first = [], KINDS["gaussian"]
    for direction in (WITH, WITHOUT):
        losses, masses = first.losses(strength, direction)
        grid = np.linspace(losses.min() - 3, losses.max() + 3, 1601)
        past = [[first.event(strength)]]
        best = best_analyst(past, grid, names, grants, epsilon, direction, more, fractions)
        found.append((masses * np.interp(losses, grid, best)).sum())
    return max(found)
