"""What it costs that the Gaussian noise lives on integers: a bound on ε, derived here."""

from __future__ import annotations

from dptransfer import _check
from dptransfer.errors import ArgumentError

_WIDTH = 85.0
_SMALLEST_SCALE = 10.0


def lattice_epsilon(scale: float, coordinates: int) -> float:
    """ε to add to the Gaussian curve for `coordinates` discrete draws of width `scale`, in grid steps.

    Let R be the law of a rounded normal draw, round(N(0, s²)), and D the discrete Gaussian that runs.
    Rounding is post-processing, so on an integer answer R has the exact Gaussian curve. Compare the two at an
    integer k:

        R(k) / φ(k) = ∫_{−½}^{½} exp(−u²/2s²) cosh(ku/s²) du  ∈  [exp(−1/8s²), exp(k²/8s⁴)],
        D(k) / φ(k) = 1 / Σ_j φ(j)  ∈  [1 − 3·exp(−2π²s²), 1]        (Poisson summation),

    and the last correction vanishes in float64 once s ≥ 10. For |k| ≤ w·s, log(R/D) lies in [−1/8s², w²/8s²].
    Outputs within 40 standard deviations of one data set's answer are within w = 80 of its neighbour's, as
    long as the noise multiplier is at least 1/40; those further out have mass at most 2m·exp(−800), which
    float64 cannot represent. So m coordinates differ by at most m(1 + 80²)/8s² in log-probability. The bound
    used is e = m(1 + 85²)/8s²: twice it also covers a neighbour at twice the distance (w = 120, 1 + 120² ≤
    2(1 + 85²)), which is how a step is restated for replacing one example (`privacy.in_relation`). If the
    ideal step is (ε, δ)-DP, the one that runs is (ε + e, exp(e)·δ)-DP.

    On a grid of 2⁻³⁰ it is next to nothing:

    >>> lattice_epsilon(scale=2.0**30, coordinates=100_000) < 1e-10
    True
    """
    _check.whole("coordinates", coordinates)
    if not scale >= _SMALLEST_SCALE:
        raise ArgumentError(
            f"Lattice noise must be at least {_SMALLEST_SCALE:g} grid steps wide; got {scale!r}. "
            "Use a finer grid."
        )
    return coordinates * (1 + _WIDTH**2) / (8 * scale**2)
