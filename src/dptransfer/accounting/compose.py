"""Compose events into one (ε, δ) curve, one guarantee, and bounds on membership inference.

Every number here is an upper bound on what the events cost together. The steps of a sequence may look at
earlier answers as long as their parameters were fixed in advance; for parameters chosen on the way the curve
of a mixture is not a bound, and `requests` says what is.

- Gaussian steps compose exactly, to μ = √(Σ T/z²) for T releases at noise multiplier z; zCDP is never used
  for them.
- One selection has a closed form; several cost at most the sum of their ε, with δ = 0.
- With tuned steps, Rényi divergences of everything are added (`best_of_many`).
- Everything else is composed by the library `dp_accounting` (`mixed`), sampled steps too (`sampled`).
- No step at all costs nothing: ε = 0 and δ = 0.

**What the lattice costs.** The noise that runs is a Gaussian on an integer lattice, within a likelihood
ratio of the ideal one that costs `numeric_epsilon`. If the ideal steps are (ε, δ)-DP and s is the sum of
those numbers, then for any event S: P'(S) ≤ e^a P(S) ≤ e^a (e^ε Q(S) + δ) ≤ e^(ε+s) Q'(S) + e^s δ, with a ≤
s. So what ran has the curve e^s δ(ε − s). (ρ needs no such correction: the discrete Gaussian meets the same
ρ exactly, Canonne, Kamath and Steinke 2020, Theorem 4; for sampled steps by the convexity of `sampled`.)

**What cut tails cost.** A sampler that never draws beyond some point has a law whose total variation distance
from the lattice's is `numeric_delta`. Let η be the sum over all steps; distances of steps add up, also if
later steps depend on earlier answers, because the two runs can be coupled to differ with probability at
most η. With two primes for what ran with cut tails, and δ' for the curve e^s δ(ε − s) above,

    P''(S) ≤ P'(S) + η ≤ e^ε Q'(S) + δ'(ε) + η ≤ e^ε (Q''(S) + η) + δ'(ε) + η,

so what ran has the curve

    e^s δ(ε − s) + (1 + e^ε) η,

and the factor 1 + e^ε is reached: P'' may gain η in a set S where Q'' loses it. No finite ρ or μ survives a
positive η, however small: an outcome that one law has and the other lacks has an infinite divergence. What
survives is that the steps are within η of others that have this ρ and μ ("η-approximate" zCDP). `rho_of` and
`mu_of` say the ρ and μ of those others as long as η is at most `NEGLIGIBLE_DELTA`, and nothing above it.

**Membership inference.** An attacker who must decide between two neighbouring data sets from the release
alone has a false-positive rate α and a true-positive rate τ. (ε, δ)-DP in both directions says τ ≤ e^ε α + δ
and 1 − α ≤ e^ε (1 − τ) + δ, for every ε at once. These are limits for any attacker, whatever he knows about
everybody else's examples.

They are for one example of a known data set, and carry over to attacks that are scored over many, as
`audit.membership` does: for each member the release with it and the one without are neighbours, and to the
release without it the example is as fresh as a test row from the same source. Averages of rates obey the
limit of the rates, because it is concave in the false positive rate. (The average is over noise and data;
what is measured on one model and finite sets scatters around it.)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache, wraps
from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike

from dptransfer.accounting.exact_curves import mu_with_slack
from dptransfer.accounting.safe_search import smallest
from dptransfer.accounting.steps import Steps, all_steps, branches, one_by_one, plain_rho, plain_steps
from dptransfer.base import checks
from dptransfer.base.types import Floats
from dptransfer.errors import BudgetError, RelationMismatch
from dptransfer.privacy import Event, Guarantee, Relation, Unit, same_relation

NO_PURE_GAUSSIAN = "Gaussian noise has no pure-epsilon guarantee; give delta > 0 or use public or top-k."
NEGLIGIBLE_DELTA = 1e-20
"""Cut tails up to this total variation are left out of ρ and μ, and said so; ε and δ always count them."""
NO_RHO_OF_CUT_TAILS = (
    f"The noise has its tails cut by more than {NEGLIGIBLE_DELTA:g}, so it has no rho and no mu; "
    "state the budget as (epsilon, delta), or sample with longer tails."
)

_Result = TypeVar("_Result")
_FEW = 16  # steps of one request, usually; an account asks about each of its requests again and again


def _remember_few(function: Callable[[Sequence[Event]], _Result]) -> Callable[[Sequence[Event]], _Result]:
    """The same function, which remembers its results where there are few events."""
    remembered = lru_cache(maxsize=2**14)(function)

    @wraps(function)
    def asked(events: Sequence[Event]) -> _Result:
        return remembered(tuple(events)) if len(events) <= _FEW else function(events)

    return asked


def delta_of(events: Sequence[Event], epsilon: float, *, quick: bool = False) -> float:
    """δ at which the events together are (ε, δ)-DP, rounded up.

    With `quick` it takes a millisecond, and is never below what it is otherwise; often it is close.

    >>> from dptransfer.privacy import GaussianEvent, Relation
    >>> noise = GaussianEvent(3.7307, Relation.ADD_REMOVE)
    >>> delta_of([noise], 1.0) <= 1e-5 < delta_of([noise, noise], 1.0)
    True
    """
    checks.non_negative("epsilon", epsilon)
    return max(steps.delta(epsilon, quick) for steps in all_steps(events))


def epsilon_of(events: Sequence[Event], delta: float) -> float:
    """Smallest ε, to a few parts in 10⁹ and rounded up, at which the events together are (ε, δ)-DP.

    The returned ε was tried: `delta_of` of it is at most `delta`. At δ = 0 Gaussian noise has none: infinity.

    >>> from dptransfer.privacy import Relation, SelectionEvent
    >>> choice = SelectionEvent(0.1, Relation.ADD_REMOVE, True, "exponential")
    >>> round(epsilon_of([choice] * 100, 0.0), 9), epsilon_of([choice] * 100, 1e-5) < 2.3
    (10.0, True)
    """
    checks.probability("delta", delta)
    return max(_epsilon_of(steps, delta) for steps in all_steps(events))


@lru_cache(maxsize=1024)  # of one plan it is asked several times, and some 50 numbers are tried each time
def _epsilon_of(steps: Steps, delta: float) -> float:
    if delta == 0:
        return steps.pure if steps.is_pure else math.inf
    if steps.delta(0.0) <= delta:
        return 0.0

    def does(epsilon: float) -> bool:
        return steps.delta(epsilon) <= delta

    if steps.is_one_selection:
        found = smallest(does, steps.pure * 1e-9, steps.pure)
        return steps.pure if found is None else found
    guesses = steps.ideal_epsilons(max(delta * math.exp(-steps.slack) * (1 - 1e-12), 1e-307))
    checked = (_raised(does, guess + steps.slack) for guess in guesses)
    found = next(filter(math.isfinite, checked), None)
    if guesses and 0 < 4 * steps.cut < delta:  # cut tails take a part of δ, which the guesses left out
        low = guesses[0] + steps.slack
        high = math.log(delta / (2 * steps.cut) - 1) if found is None else found  # there they take half
        found = smallest(does, low, high) if 0 < low < high else found
    return math.inf if found is None else found


def rho_of(events: Sequence[Event]) -> float | None:
    """ρ of zero-concentrated DP of the events together, the sum of each step's.

    Sampled steps count without amplification. None with tuned steps, and where tails are cut by more than
    `NEGLIGIBLE_DELTA`.

    >>> from dptransfer.privacy import GaussianEvent, Relation
    >>> rho_of([GaussianEvent(1.0, Relation.ADD_REMOVE)] * 2)
    1.0
    """
    if Steps.of(plain_steps(events)).by_renyi:
        return None
    if math.fsum(event.numeric_delta for event in events) > NEGLIGIBLE_DELTA:
        return None
    return math.fsum(max(map(plain_rho, choices)) for choices in one_by_one(events))


@_remember_few
def mu_of(events: Sequence[Event]) -> float | None:
    """μ of Gaussian DP of the events together, lattice included, sampled steps without amplification.

    None with selections or tuned steps, and where tails are cut by more than `NEGLIGIBLE_DELTA`.

    >>> from dptransfer.privacy import GaussianEvent, Relation
    >>> mu_of([GaussianEvent(10.0, Relation.ADD_REMOVE, times=100)])
    1.0
    """
    found = [_mu_of(steps) for steps in all_steps(events)]
    known = [mu for mu in found if mu is not None]
    return max(known) if len(known) == len(found) else None


def _mu_of(steps: Steps) -> float | None:
    if steps.is_nothing:
        return 0.0
    if steps.groups or steps.by_renyi or steps.cut > NEGLIGIBLE_DELTA:
        return None
    return mu_with_slack(steps.whole_mu, steps.slack)


def pure_epsilon_of(events: Sequence[Event]) -> float | None:
    """ε of pure DP of the events together, the sum; None unless all are selections.

    >>> from dptransfer.privacy import Relation, SelectionEvent
    >>> pure_epsilon_of([SelectionEvent(0.5, Relation.ADD_REMOVE, False, "permute-and-flip")] * 2)
    1.0
    """
    if not Steps.of(plain_steps(events)).is_pure:
        return None
    return math.fsum(max(Steps.of(one).pure for one in choices) for choices in one_by_one(events))


def guarantee_of(
    events: Sequence[Event],
    budget_delta: float,
    assumptions: Sequence[str] = (),
    *,
    relation: Relation | None = None,
    unit: Unit | None = None,
) -> Guarantee:
    """What the events together promise, with ε quoted at `budget_delta`, or at δ = 0 where that is as good.

    Args:
        events: the steps; none at all promise ε = 0, under the relation that must then be given, for examples
            unless another unit is.
        budget_delta: δ to quote ε at.
        assumptions: what must hold beyond the code being right.
        relation: the events' relation, if it is to be checked.
        unit: the events' unit, likewise.

    >>> from dptransfer.privacy import Relation, SelectionEvent
    >>> print(guarantee_of([SelectionEvent(0.5, Relation.ADD_REMOVE, True, "exponential")], 0.0))
    This model is (ε = 0.5)-differentially private with respect to adding or removing one example.
    >>> guarantee_of([], 1e-5, relation=Relation.ADD_REMOVE).epsilon
    0.0
    """
    budget_delta = checks.probability("delta", budget_delta)
    if relation is None or events:
        found = same_relation(events)
        own = events[0].unit
        if relation not in (None, found) or unit not in (None, own):
            raise RelationMismatch(
                f"A guarantee is stated under the relation of its events, for their unit; got "
                f"{found.words(own)} events and {(relation or found).words(unit or own)}. "
                "Plan the mechanisms under that relation, for the unit of the data."
            )
        relation, unit = found, own
    pure, mu = pure_epsilon_of(events), mu_of(events)
    if pure is None and budget_delta == 0:
        by_renyi = [part for steps in all_steps(events) for part in steps.by_renyi]
        raise BudgetError(by_renyi[0].nothing_else if by_renyi else NO_PURE_GAUSSIAN)
    epsilon, delta = epsilon_of(events, budget_delta), budget_delta
    if pure is not None and pure <= epsilon:
        epsilon, delta = pure, 0.0
    mu = mu if mu is not None and math.isfinite(mu) else None
    return Guarantee(epsilon, delta, relation, rho_of(events), mu, tuple(assumptions), unit or Unit.ROW)


@_remember_few
def is_gaussian(events: Sequence[Event]) -> bool:
    """Whether all steps, if there are any, are Gaussian noise on all rows: their curve is one Gaussian's.

    Of disjoint parts with such steps the one of largest μ is above the others at every ε.
    """
    return all(Steps.of(branch).is_gaussian for branch in branches(events))


def composition_words(events: Sequence[Event]) -> str:
    """How these steps, one or more of them, were added up, for whoever reads the numbers.

    >>> from dptransfer.privacy import GaussianEvent, Relation
    >>> composition_words([GaussianEvent(1.0, Relation.ADD_REMOVE)])
    'Gaussian steps compose exactly; ε is read off the exact Gaussian curve at δ.'
    """
    said = _composed(plain_steps(events))
    if any(len(branch) < len(plain_steps(events)) for branch in branches(events)):
        one = events[0].unit.value.replace("row", "example")
        return f"Each {one} is in one part of the data, and the dearer part is the price. {said}"
    return said


def _composed(events: Sequence[Event]) -> str:
    steps = Steps.of(events)
    if any(event.trials() for event in events):
        return (
            "Of the trials of a tuned step only the best was released; the number of trials was random. Its "
            "Rényi divergences follow from those of one trial (Papernot and Steinke 2022), and those of all "
            "steps are added."
        )
    if steps.by_renyi:
        return "The Rényi divergences of all steps are added, and ε is read off the best order."
    if steps.sampled:
        return (
            "Steps on random samples compose by the exact distribution of their privacy loss, on a grid that "
            "is rounded to the safe side. That nobody learns who was in a sample is part of the guarantee."
        )
    if steps.is_gaussian:
        return "Gaussian steps compose exactly; ε is read off the exact Gaussian curve at δ."
    if steps.is_pure:
        return (
            "Selections compose by the smallest of several valid bounds: the sum of their ε, and at δ "
            "Rényi divergences and privacy loss distributions."
        )
    return (
        "Gaussian steps compose exactly; with selections, by the smallest of several valid bounds: "
        "Gaussian DP, Rényi divergences and privacy loss distributions."
    )


def _raised(fits: Callable[[float], bool], guess: float) -> float:
    """`guess`, raised by parts in 10¹² until it fits: it came from the same curve by another route."""
    if math.isinf(guess):
        return guess
    step = 1e-12
    while not fits(guess) and step < 1e-3:
        guess *= 1 + step
        step *= 2
    return guess if fits(guess) else math.inf


_CURVE_POINTS = 64
_AREA_POINTS = 20_000


def true_positive_rate(events: Sequence[Event], false_positive_rate: float) -> float:
    """Upper bound on the true-positive rate of any membership attack at `false_positive_rate`.

    >>> from dptransfer.privacy import GaussianEvent, Relation
    >>> round(true_positive_rate([GaussianEvent(1.0, Relation.ADD_REMOVE)], 0.01), 3)
    0.092
    """
    alarm = checks.probability("false_positive_rate", false_positive_rate)
    return float(rate_ceilings(events, [alarm], last_delta=max(alarm * 1e-4, 1e-15))[0])


def rate_ceilings(
    events: Sequence[Event], false_positive_rates: ArrayLike, *, last_delta: float = 1e-7
) -> Floats:
    """Upper bounds on the true positive rates of any attack at these false positive rates, all at once.

    Gaussian steps: the exact trade-off Φ(Φ⁻¹(α) + μ), with α and the result raised by what cut tails move.
    Otherwise both constraints of (ε, δ)-DP, on a grid of ε up to where δ is `last_delta`, are lines that the
    curve stays below.

    >>> from dptransfer.privacy import GaussianEvent, Relation
    >>> rate_ceilings([GaussianEvent(1.0, Relation.ADD_REMOVE)], [0.01, 0.1]).round(3)
    array([0.092, 0.389])
    """
    alarms = np.asarray(false_positive_rates, dtype=np.float64)
    if not events:
        return alarms
    mu = mu_of(events) if is_gaussian(events) else None
    if mu is not None and math.isfinite(mu):
        from scipy.special import ndtr, ndtri

        cut = math.fsum(event.numeric_delta for event in events)
        # An error of 1e-15 in ndtri moves the answer most in the tails, by less than 1e-12 of itself.
        exact: Floats = ndtr(ndtri(np.minimum(alarms + cut, 1.0)) + mu) * (1 + 1e-10) + cut
        return np.minimum(np.maximum(exact, alarms), 1.0)
    top, pure = epsilon_of(events, last_delta), pure_epsilon_of(events)
    grid = [] if math.isinf(top) else [top * step / _CURVE_POINTS for step in range(_CURVE_POINTS + 1)]
    curve = np.ones_like(alarms)
    for epsilon in grid + ([] if pure is None else [pure]):
        if epsilon < 700:  # e^ε is a float
            delta = delta_of(events, epsilon)
            by_alarm = math.exp(epsilon) * alarms + delta
            by_miss = 1 - math.exp(-epsilon) * np.maximum(0.0, 1 - alarms - delta)
            curve = np.minimum(curve, np.minimum(by_alarm * (1 + 1e-12), by_miss + 1e-15))
    return np.maximum(curve, alarms)


def area_ceiling(events: Sequence[Event]) -> float:
    """Largest area under the curve of any attack, rounded up by 1/20000 at most.

    For Gaussian steps it is Φ(μ/√2), the chance to order two normals that are μ apart.

    >>> from dptransfer.privacy import GaussianEvent, Relation, SelectionEvent
    >>> round(area_ceiling([GaussianEvent(1.0, Relation.ADD_REMOVE)]), 4), area_ceiling([])
    (0.7603, 0.5)
    >>> round(area_ceiling([SelectionEvent(1.0, Relation.ADD_REMOVE, False, "laplace")]), 3)
    0.731
    """
    if not events:
        return 0.5
    # The curve rises, so rectangles up to its right ends are above it.
    right_ends = np.arange(1, _AREA_POINTS + 1) / _AREA_POINTS
    return min(1.0, float(rate_ceilings(events, right_ends).mean()) * (1 + 1e-12))


def membership_advantage(events: Sequence[Event]) -> float:
    """Upper bound on true-positive minus false-positive rate: the curve at ε = 0, the total variation.

    >>> from dptransfer.privacy import GaussianEvent, Relation
    >>> round(membership_advantage([GaussianEvent(1.0, Relation.ADD_REMOVE)]), 4)
    0.3829
    """
    return delta_of(events, 0.0)
