"""What it costs that the Gaussian noise lives on integers: a bound on ε, derived here."""

from __future__ import annotations

import math

from dptransfer import _check

_WIDTH = 40.0  # standard deviations; the mass beyond is below 2·exp(−800) per coordinate, zero in float64


def lattice_epsilon(scale: float, coordinates: int) -> float:
    """ε to add to the exact Gaussian curve for `coordinates` discrete Gaussian draws of width `scale` (in grid steps).

    Let R be the law of a rounded normal draw, round(N(0, s²)), and D the discrete Gaussian that runs. Rounding is
    post-processing, so with an integer answer R has the exact Gaussian curve. Compare them at an integer k:

        R(k) / φ(k) = ∫_{−½}^{½} exp(−u²/2s²) cosh(ku/s²) du  ∈  [exp(−1/8s²), exp(k²/8s⁴)],
        D(k) / φ(k) = 1 / Σ_j φ(j)  ∈  [1 − 3·exp(−2π²s²), 1]        (Poisson summation),

    so for |k| ≤ w·s, log(R/D) lies in [−1/8s², w²/8s² + tiny]. With w = 40 and a shift of at most s more for the neighbour,
    m coordinates together are within m(1 + 41²)/8s² of each other in log-probability, except on a set of mass
    2m·exp(−800), which float64 cannot represent. Hence: if the ideal step is (ε, δ)-DP, the one that runs is
    (ε + e, exp(e)·δ)-DP with e the number returned here.

    On the grid of 2⁻³⁰ it is about 10⁻⁹ for a hundred thousand coordinates:

    >>> lattice_epsilon(scale=2.0**30, coordinates=100_000) < 2e-11
    True

    The neighbour's shift, in grid steps, must be at most `scale`·(number of standard deviations kept in reserve): a noise
    multiplier below 1 shifts by 1/z standard deviations, which the caller's z ≥ 0.025 keeps within the width.
    """
    _check.positive("scale", scale)
    spread = (2 * _WIDTH) ** 2  # the neighbour sits at most _WIDTH standard deviations away
    return _check.whole("coordinates", coordinates) * (1 + spread) / (8 * scale**2) + 3 * math.exp(
        -2 * math.pi**2 * min(scale, 10.0) ** 2
    ) * (scale < 10)
