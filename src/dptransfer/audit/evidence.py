"""Tests of a release: of the code by a replay on made-up rows, and of the run itself by its witnesses.

Each finding says what was tried, whether it holds, and on what assumption. Those that rest on chance have a
p-value, and refute the release where it is below `FALSE_ALARM` ÷ number of such tests: so an audit of a sound
release is wrong with probability `FALSE_ALARM` at most, whatever the tests have to do with one another
(Bonferroni). Their noise follows from the seed of the audit, but for that of the released witnesses.

**How much is really spent.** One unit more moves answer t by s_t steps of its grid, which is computed exactly
for canaries among made-up rows. Its noise has the standard deviation σ_t, which is at most u times the stated
one, wrong with a small chance, by the χ² law of the noise that was drawn. The answers with and without the
canary are then at least μ = √Σ(s_t/uσ_t)² apart, and ε at δ is at least that of μ-GDP. Where rows are sampled
or candidates chosen, ε is that of the accountant at the shares and noise that were found.

**A test that assumes no law.** Of a μ-GDP mechanism every test has Φ⁻¹(TPR) − Φ⁻¹(FPR) ≤ μ (Dong, Roth and
Su 2022). Each witness coordinate is a test whether its canary is there: is it above a half of the canary? The
rates are counted, with limits by Clopper and Pearson. The threshold is fixed beforehand.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any, Literal

import numpy as np

from dptransfer.accounting import epsilon_of, epsilon_of_mu, mu_of
from dptransfer.audit.lower_bound import high_limit, low_limit
from dptransfer.audit.replay import KeyedNoise, Replay, WatchedAnswer
from dptransfer.base.types import Floats, Integers
from dptransfer.mechanisms import ExponentialMechanism, LaplaceNoisyMax, PermuteAndFlip
from dptransfer.mechanisms.mechanism import exact_answer
from dptransfer.noise.race import ScoreBins, run_choice
from dptransfer.privacy import Event, GaussianEvent, Relation, SampledGaussianEvent, SelectionEvent
from dptransfer.privacy import witnesses as law
from dptransfer.privacy.witnesses import Witnesses

FALSE_ALARM = 1e-3
"""Chance that the audit of a sound release refutes it."""

Verdict = Literal["holds", "refuted", "not tried"]

_DRAWS = {False: 120_000, True: 25_600}  # of the noise; by whether the audit is quick
_CHOICES = {False: 4_000, True: 1_000}
_MOST_ANSWERS = 40  # of which shifts are computed in exact integers; norms are, of all of them
_HAIR = 1e-6


@dataclass(frozen=True)
class Evidence:
    """One thing that was tried.

    Attributes:
        name: what, in a few words.
        verdict: whether it holds.
        found: what was found, in words.
        assumes: on what assumption.
        runs: how many answers, draws or candidates it is about.
        p_value: chance that a sound release shows as much, where chance is involved.
        seconds: how long it took.
    """

    name: str
    verdict: Verdict
    found: str
    assumes: str = ""
    runs: int = 0
    p_value: float | None = None
    seconds: float = 0.0


def judge(findings: Sequence[Evidence]) -> list[Evidence]:
    """With verdicts: each of the tests by chance has its equal part of `FALSE_ALARM`."""
    error = FALSE_ALARM / max(1, sum(one.p_value is not None for one in findings))
    return [
        one if one.p_value is None else replace(one, verdict=_verdict(one.p_value >= error))
        for one in findings
    ]


def _verdict(holds: bool) -> Verdict:
    return "holds" if holds else "refuted"


@dataclass(frozen=True)
class SpentEpsilon:
    """How much of the promise is really spent, as far as was found.

    Attributes:
        epsilon: at the release's δ.
        share: of the promised ε.
        by: how it was found, in words.
        proven: whether it is a lower bound, and not the accountant's value at what was found.
    """

    epsilon: float
    share: float
    by: str
    proven: bool


def replay_findings(made: Replay, delta: float, *, quick: bool) -> tuple[list[Evidence], SpentEpsilon | None]:
    """What the replay of a release shows, and how much of its promise is spent."""
    noise = KeyedNoise(made.seed + 1)
    draws = list(draws_by_label(made, noise, _DRAWS[quick]))
    found = [
        *with_seconds(lambda: sensitivity(made)),
        *with_seconds(lambda: [price(made, delta)]),
        *with_seconds(lambda: [nothing_beside(made)]),
        *samples(made),
        *(one for label, group in draws for one in noise_tests(label, group)),
        *with_seconds(lambda: selections(made, noise, _CHOICES[quick])),
    ]
    return found, epsilon_spent(made, [group for _, group in draws], delta)


def with_seconds(work: Callable[[], Iterable[Evidence]]) -> Iterator[Evidence]:
    """What comes of it, with the seconds on the first."""
    start = time.perf_counter()
    found = list(work())
    took = time.perf_counter() - start
    yield from (replace(one, seconds=0.0 if n else took) for n, one in enumerate(found))


def sensitivity(made: Replay) -> list[Evidence]:
    """How far canaries move exact answers, against how far they may: in integers, without chance."""
    if not made.asked:
        return []
    relation = made.plan.guarantee.relation
    moved: list[tuple[float, str]] = []
    step = max(1, len(made.gaussian) // _MOST_ANSWERS)
    for one in made.gaussian[::step]:
        may = one.query.l2_sensitivity(relation) * one.query.grid
        if isinstance(one.law, SampledGaussianEvent):
            may = one.law.sensitivity * one.query.grid  # of one unit, under either relation
        for words, gap in _gaps(made, one, relation):
            moved.append((math.sqrt(sum(int(k) ** 2 for k in gap[gap != 0])) / may, words))
    for one in made.asked:
        if not one.is_gaussian:
            for unit, words in made.canaries.items():
                gap = one.about(unit)
                far = float(gap.max(axis=0, initial=0).sum()) / one.query.score_range
                moved.append((math.inf if gap.min(initial=0) < 0 else far, words))
    worst, words = max(moved, key=lambda one: one[0], default=(0.0, ""))
    said = f"the furthest is {100 * worst:.4g}% of what is paid for, by {words if worst else 'no canary'}"
    name, canaries = "Sensitivity, in exact integers", "the canaries that were tried"
    return [Evidence(name, _verdict(worst <= 1), said, canaries, len(moved))]


def _gaps(made: Replay, one: WatchedAnswer, relation: Relation) -> Iterator[tuple[str, Integers]]:
    """What canaries move an answer by, one added, or one put in the place of another."""
    if one.is_vote:
        yield "a teacher who answers otherwise", one.gap_of_ballots(relation)
        return
    about = {unit: one.about(unit).ravel() for unit in made.canaries}
    for unit, words in made.canaries.items():
        yield words, about[unit]
    if relation is Relation.REPLACE_ONE and not isinstance(one.law, SampledGaussianEvent):
        for first, second in combinations(made.canaries, 2):
            told = f"{made.canaries[first]}, in the place of {made.canaries[second]}"
            yield told, about[first] - about[second]
    unit = next(iter(made.canaries))
    if not isinstance(one.law, SampledGaussianEvent):  # the answer is a sum: what it is about one, it adds
        everybody = exact_answer(one.query, one.rows, one.labels, one.people).ravel()
        yield f"{made.canaries[unit]}, among others", everybody - one.without(unit).ravel()


def price(made: Replay, delta: float) -> Evidence:
    """Whether the answers that were given cost no more than was planned, by their own events."""
    name = "Every noisy answer is paid for"
    asked, planned = made.asked, made.plan.events
    if not planned and not asked:
        return Evidence(name, "holds", "no answer about private rows was given, and none is charged")
    if any(getattr(one.step, "is_part", False) for one in asked):  # parts cost less than one by one
        steps = [step for step in made.plan.mechanisms if not hasattr(step, "parts")]
        parts = [part for step in made.plan.mechanisms for part in getattr(step, "parts", ())]
        most = sum(getattr(one, "times", 1) for one in (*steps, *parts))
        held, said = len(asked) <= most, f"{len(asked)} answers, of {most} that are planned"
    else:
        paid, cost = (epsilon_of(events, delta) for events in (planned, [one.law for one in asked]))
        held, said = cost <= paid * (1 + _HAIR), f"{len(asked)} answers cost ε = {cost:.6g} of {paid:.6g}"
    return Evidence(name, _verdict(held), said, "mechanisms are the only way out", len(asked))


def nothing_beside(made: Replay) -> Evidence:
    """Whether the same noisy answers about other rows give the same release."""
    name = "Nothing but noisy answers is released"
    if not made.plan.mechanisms:
        return Evidence(name, "holds", "no private row is used")
    if made.difference is None:
        return Evidence(name, "not tried", "a second run would take too long")
    said = "other rows, without one of the classes, gave the same release with the same answers"
    return Evidence(name, _verdict(not made.difference), made.difference or said, "these two sets of rows", 2)


def samples(made: Replay) -> list[Evidence]:
    """Whether as many units are in the samples as the events say: more of them would cost more."""
    from scipy.stats import binomtest

    rates = {one.sampling_rate for one in made.plan.events if isinstance(one, SampledGaussianEvent)}
    if len(rates) != 1:
        return []
    units, taken = sum(count for count, _ in made.samples), sum(own for _, own in made.samples)
    rate = rates.pop()
    said = f"{taken} of {units} coins fell for a unit, at a stated rate of {rate:.4g}"
    p_value = float(binomtest(taken, units, rate).pvalue) if units else 0.0
    return [Evidence("Poisson samples", "holds", said, "coins are independent", units, p_value)]


def draws_by_label(made: Replay, noise: KeyedNoise, wanted: int) -> Iterator[tuple[str, Floats]]:
    """For each kind of question, draws of its noise: of the run, and of as many more answers as it takes."""
    groups: dict[str, list[WatchedAnswer]] = {}
    for one in made.gaussian:
        groups.setdefault(one.query.label, []).append(one)
    for label, answers in groups.items():
        found = [one.draws() for one in answers]
        count = sum(map(len, found))
        turn = 0
        while count < wanted // len(groups):
            more = answers[turn % len(answers)].one_more(noise, wanted // len(groups) // 5)
            found.append(more)
            count, turn = count + len(more), turn + 1
        yield label, np.concatenate(found)[: 4 * wanted]


def noise_tests(label: str, draws: Floats) -> list[Evidence]:
    """Size, shape and tails of the noise of one kind of question."""
    spread, n = float(np.sqrt(np.mean(np.square(draws)))), len(draws)
    far = int((np.abs(draws) > 3).sum())
    tests = (
        ("Size", f"standard deviation {spread:.4f} of the stated one", law.size_p_value(draws)),
        ("Law", f"{law.CELLS} equally likely intervals are filled evenly", law.shape_p_value(draws)),
        ("Tails", f"{far} draws beyond three standard deviations", law.tail_p_value(draws)),
    )
    assumed = "noise is drawn independently of the rows"
    return [
        Evidence(f"{name} of the noise, {label}", "holds", said, assumed, n, p_value)
        for name, said, p_value in tests
    ]


def witness_findings(drawn: Witnesses, recorded: str | None) -> list[Evidence]:
    """What the released witnesses show of the very run; `recorded` is the digest that the ledger has."""
    honest = "the publisher gave what was drawn"
    found = [replace(one, assumes=honest) for one in noise_tests("this run", drawn.draws)]
    found.append(replace(free_of_laws(drawn), assumes=f"{honest}; no law"))
    if recorded is not None:
        said = "the seed of the coins is the one whose hash the ledger had before the run"
        same = _verdict(recorded == drawn.digest)
        found.append(Evidence("Coins on record before the run", same, said, "the ledger", 1))
    return found


def witnessed_price(drawn: Witnesses, made: Replay) -> list[Evidence]:
    """Whether the answers that left witnesses cost no more, in Σ1/z², than the steps that were charged."""
    noisy = [one for one in made.plan.events if isinstance(one, GaussianEvent | SampledGaussianEvent)]
    if any(hasattr(step, "parts") for step in made.plan.mechanisms) or not noisy:
        return []  # parts cost less together than one by one
    paid = math.fsum(one.times / one.noise_multiplier**2 for one in noisy)
    cost = math.fsum(one.answers / one.noise_multiplier**2 for one in drawn.laws)
    answers = sum(one.answers for one in drawn.laws)
    held, said = (
        _verdict(cost <= paid * (1 + _HAIR)),
        f"{answers} answers cost Σ1/z² = {cost:.5g} of {paid:.5g}",
    )
    return [Evidence("Answers of this run are paid for", held, said, "every answer left witnesses", answers)]


def free_of_laws(drawn: Witnesses) -> Evidence:
    """Whether canaries are told from noise better than any μ-GDP mechanism allows; p by both counts."""
    from scipy.special import ndtr, ndtri
    from scipy.stats import binom

    counts = [one.answers * one.each for one in drawn.laws]
    canary = np.repeat([one.sensitivity for one in drawn.laws], counts)
    strength = np.repeat([1 / one.noise_multiplier for one in drawn.laws], counts)
    above, coins, mu = drawn.values > canary / 2, drawn.coins == 1, float(strength.max())
    hits, members = int(above[coins].sum()), int(coins.sum())
    alarms, others = int(above[~coins].sum()), int((~coins).sum())
    # A μ-GDP test cannot have both TPR > Φ(μ/2) and FPR < Φ(−μ/2).
    p_value = max(
        float(binom.sf(hits - 1, members, ndtr(mu / 2))), float(binom.cdf(alarms, others, ndtr(-mu / 2)))
    )
    low, high = low_limit(hits, members, 0.025), high_limit(alarms, others, 0.025)
    seen = max(0.0, float(ndtri(low) - ndtri(high))) if 0 < low and high < 1 else 0.0
    said = f"canaries are told apart with μ ≥ {seen:.3f} (95%); allowed is {mu:.3f}"
    return Evidence("Test without a law, this run", "holds", said, "", len(above), p_value)


def epsilon_spent(made: Replay, draws: Sequence[Floats], delta: float) -> SpentEpsilon | None:
    """How much of the promise is really spent."""
    events, relation = made.plan.events, made.plan.guarantee.relation
    if not events or (delta == 0 and not made.asked):
        return None
    claimed = epsilon_of(events, delta)
    up = max((law.size_upper_limit(one, FALSE_ALARM) for one in draws), default=1.0)
    plain = [one for one in made.gaussian if isinstance(one.law, GaussianEvent)]
    if plain and len(plain) == len(made.asked):
        mu = min(_largest_mu(made, plain, relation) / up, mu_of(events) or math.inf)
        epsilon = epsilon_of_mu(mu, delta) * (1 - _HAIR)
        by = f"exact shifts and the size of the noise ({100 * (1 - FALSE_ALARM):g}%)"
        return SpentEpsilon(epsilon, epsilon / claimed, by, True)
    if not all(isinstance(one, GaussianEvent | SampledGaussianEvent | SelectionEvent) for one in events):
        return None
    shares = {one.query.label: _share(made, one) for one in made.asked}
    share = min(1.0, max(shares.values(), default=1.0))
    epsilon = min(claimed, epsilon_of([_with_share(event, share, up) for event in events], delta))
    by = "the accountant, at the shifts and the noise found"
    return SpentEpsilon(epsilon, epsilon / claimed, by, False)


def _with_share(event: Any, share: float, up: float) -> Event:
    if isinstance(event, SelectionEvent):
        return replace(event, epsilon=max(1e-9, share * event.epsilon))
    changed: Event = replace(event, noise_multiplier=event.noise_multiplier * up / max(share, 1e-9))
    return changed


def _largest_mu(made: Replay, answers: Sequence[WatchedAnswer], relation: Relation) -> float:
    """Largest distance, over their noise, between two neighbours that differ by canaries."""
    units = list(made.canaries)[:4]
    pairs: list[tuple[int, ...]] = [(unit,) for unit in units]
    if relation is Relation.REPLACE_ONE:
        pairs = list(combinations(units, 2))
    squares = np.zeros(len(pairs))
    for one in answers:
        if one.is_vote:
            gaps = [one.gap_of_ballots(relation)] * len(pairs)
        else:
            about = {unit: one.about(unit).ravel() for unit in units}
            gaps = [about[first] - sum(about[other] for other in others) for first, *others in pairs]
        squares += [float(np.square(gap.astype(np.float64)).sum()) / one.scale**2 for gap in gaps]
    return math.sqrt(squares.max())


def _share(made: Replay, one: WatchedAnswer) -> float:
    """How far the canaries move one answer, as a share of what is paid for."""
    if one.is_vote:
        return 1.0
    if one.is_gaussian:
        may = float(one.law.sensitivity * one.query.grid)
        return max(float(np.linalg.norm(one.about(unit).astype(np.float64))) / may for unit in made.canaries)
    return loss_of_choice(made, one) / float(one.law.epsilon)


def selections(made: Replay, noise: KeyedNoise, choices: int) -> list[Evidence]:
    """Choices among candidates: the loss is calculated, and the sampler compared with its law."""
    found = []
    for number, one in enumerate(one for one in made.asked if not one.is_gaussian):
        allowed, loss = one.law.epsilon, loss_of_choice(made, one)
        name, held = f"Choice {number + 1}, calculated", _verdict(loss <= allowed * (1 + _HAIR))
        said = f"a canary changes a probability by e^{loss:.4f} at most; allowed is e^{allowed:.4f}"
        found.append(Evidence(name, held, said, "the made-up candidates", len(made.canaries)))
        if not isinstance(one.step, LaplaceNoisyMax) and one.step.members == 1:
            found.append(_sampler(one, noise, choices))
    return found


def loss_of_choice(made: Replay, one: WatchedAnswer) -> float:
    """Largest |log ratio| of probabilities with and without a canary, summed over classes.

    Of the exponential mechanism by its law, p ∝ exp(score/scale) (for sets it is an upper bound, by the
    smallest score); of the others by how far the scores move.
    """
    from scipy.special import log_softmax

    everybody = exact_answer(one.query, one.rows, one.labels, one.people) / one.step.scale
    worst = 0.0
    for unit in made.canaries:
        others = one.without(unit) / one.step.scale
        moved = everybody - others
        if isinstance(one.step, ExponentialMechanism) and one.step.members == 1:
            moved = log_softmax(everybody, axis=0) - log_softmax(others, axis=0)
        worst = max(worst, float(np.abs(moved).max(axis=0).sum()))
    return worst


def _sampler(one: WatchedAnswer, noise: KeyedNoise, choices: int) -> Evidence:
    """Choices of the mechanism's own sampler among five candidates, against the law that the event states."""
    from scipy.stats import chisquare

    step, directions = one.step, 1 if one.law.relation is Relation.ADD_REMOVE else 2
    scale = directions * one.query.score_range / one.law.epsilon
    scores = np.rint(np.array([0.0, 0.4, 1.0, 1.3, 2.0]) * scale).astype(np.int64)
    bins = ScoreBins.of(scores, step.scale, 1)
    drawn = [run_choice(step.choice(bins, noise), scores)[0] for _ in range(choices)]
    wanted = choice_law(scores / scale, flips=isinstance(step, PermuteAndFlip))
    p_value = float(chisquare(np.bincount(drawn, minlength=len(scores)), choices * wanted).pvalue)
    said = "five candidates are chosen as often as they should be"
    return Evidence(f"Sampler of '{step.name}'", "holds", said, "these five scores", choices, p_value)


def choice_law(scores: Floats, *, flips: bool) -> Floats:
    """Probability of each candidate, by scores over the scale; of permute-and-flip where that `flips`.

    That is by inclusion and exclusion. With w_i = exp(−(M − s_i)), candidate j is chosen with probability
    w_j·Σ_S (−1)^|S| Π_{i∈S} w_i ÷ (|S| + 1), over the sets S of the others.
    """
    weights = np.exp(scores - scores.max())
    found: Floats = weights / weights.sum()
    if not flips:
        return found
    for own in range(len(weights)):
        sums = np.zeros(len(weights))  # by size of S
        sums[0] = 1.0
        for weight in np.delete(weights, own):
            sums[1:] -= weight * sums[:-1].copy()
        found[own] = weights[own] * float((sums / np.arange(1, len(weights) + 1)).sum())
    return found
