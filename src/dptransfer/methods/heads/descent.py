"""Softmax heads trained by noisy gradients: step schedule, learning rate and the descent they share.

A learning rate cannot be tuned to the number of private rows, which is private. There are two schedules that
need no such number:

`NoiseRate`, for linear heads: the noise is known, so the rate can be set by it. T steps that share a budget
each have √T times the noise σ of a single release; at the rate r they leave noise of r·T·σ in every weight,
and as much in the logit of a row of unit norm. The rate makes this `logit_noise`·log(classes): a logit must
rise by log(classes) to be as likely as all others together. Neither the number of steps nor that of axes is
in it, and the signal that the steps collect is as many times larger as classes are beside the noise.

`Pace`, for networks and projections: a step has a planned length along the noisy gradient. The lengths fall
linearly and add up to `reach`·√classes. With g = signal + noise, ‖g‖² ≈ ‖signal‖² + noise². So a step from a
start that knows something is shortened by the estimated share √(1 − noise²/‖g‖²) of the signal in what was
seen. A start of zeros has nothing to lose, and its steps keep their length.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from dptransfer.accounting import fits, largest_times
from dptransfer.base import checks, progress
from dptransfer.base.types import Floats, People
from dptransfer.data import Facts, PrivateEmbeddings, PublicEmbeddings
from dptransfer.errors import BudgetError
from dptransfer.exact import chunks, cuda, sums
from dptransfer.exact.feature_map import FittedFeatures, OnLattice, mapped_on_cuda
from dptransfer.mechanisms import GaussianRounds, rounds_of
from dptransfer.methods.about import Moderate, ModerateOrZero, Positive, Whole, check_settings
from dptransfer.methods.heads.hierarchical import count_estimates
from dptransfer.methods.heads.start import FromZero
from dptransfer.methods.method import EmbeddingMethod, Outcome, Plan, RowsTask
from dptransfer.noise import NoiseSource
from dptransfer.privacy import SMALLEST_NOISE_MULTIPLIER, Budget, Event, Unit
from dptransfer.queries import L2Query, SoftmaxGradient
from dptransfer.queries.softmax_gradient import ROW_NORM
from dptransfer.release.heads import Head, LinearHead


@dataclass(frozen=True)
class Pace:
    """Lengths of the steps, and how far they may lead.

    Attributes:
        reach: length of the whole path, per √class; for rows of unit norm, a bound on how far a class's logit
            can move.
        weight_decay: share of the distance to the start that each step takes back, times its share of the
            path; 0 for none.
        radius: most that the weights may be away from the start, per √class.
    """

    reach: Moderate = 50.0
    weight_decay: ModerateOrZero = 0.0
    radius: Moderate = 50.0
    kind: ClassVar[str] = "lengths"

    def __post_init__(self) -> None:
        """Check the settings."""
        check_settings(self)


_LONGEST_STEP = 5.0  # most that a step moves the logit of a unit row by: larger ones swing from side to side
_SUFFICIENT = 16.0  # typical class over the noise, for each public row of a class, to go all the way


@dataclass(frozen=True)
class NoiseRate:
    """A constant learning rate, set by the noise that all steps together leave in a logit.

    Attributes:
        logit_noise: its standard deviation for a row of unit norm, in parts of log(classes).
    """

    logit_noise: Moderate = 0.3
    kind: ClassVar[str] = "noise"

    def __post_init__(self) -> None:
        """Check the setting."""
        check_settings(self)


class Descent:
    """The state of one descent: weights, and their average so far.

    Args:
        start: (classes, dimension), or any matrix.
        steps: how many there will be.
        pace: how far they go.
        is_informative: whether the start has something to lose; by default, if it is not zero.
    """

    def __init__(self, start: Floats, steps: int, pace: Pace, *, is_informative: bool | None = None) -> None:
        self.weights = start
        self._start, self._steps, self._pace = start, steps, pace
        self._offset, self._average = np.zeros_like(start), np.zeros_like(start)
        self._is_informative = bool(start.any()) if is_informative is None else is_informative
        self._taken = 0

    def step(self, gradient: Floats, noise: float) -> None:
        """One step against a gradient that holds noise of this norm."""
        self._taken += 1
        unit = math.sqrt(len(self._start))
        share = 2 * (self._steps + 1 - self._taken) / (self._steps * (self._steps + 1))
        seen = max(_length(gradient), 1e-300)
        signal = math.sqrt(1 - min(1.0, noise / seen) ** 2) if self._is_informative else 1.0
        length = self._pace.reach * unit * share * signal / seen
        offset = self._offset  # changed in place: with many classes these passes are a good part of a step
        if self._pace.weight_decay:
            offset *= max(0.0, 1 - self._pace.weight_decay * share)
        offset -= length * gradient
        # Projection to the ball, line 5 of Algorithm 1 of Golatkar et al. (2022).
        if (inside := self._pace.radius * unit / max(_length(offset), 1e-300)) < 1:
            offset *= inside
        self.weights = self._start + offset
        # Weights 2t/(T(T+1)): later iterates count for more, as in their Theorem 3.
        self._average += (2 * self._taken / (self._steps * (self._steps + 1))) * offset

    @property
    def result(self) -> Floats:
        """The weighted average of the iterates, once all steps are taken."""
        return self._start + self._average


class DescentAtNoiseRate:
    """The state of a descent whose rate is set by the noise; its result is the last iterate.

    Rows of an encoder share a direction, in which the loss is steep: with many rows a rate that suits all
    others swings from side to side there. A gradient g that points against the one before, h, says so: a step
    of 1/(1 − g·h/‖h‖²) of the length would have ended where they are at right angles. The rate falls by that
    and never rises; both gradients are released, so it costs nothing. Noise in h makes the fall smaller.

    Args:
        start: (classes, dimension).
        steps: how many there will be.
        logit_noise: as of `NoiseRate`.
    """

    def __init__(self, start: Floats, steps: int, logit_noise: float) -> None:
        self.weights = start
        self._per_step = logit_noise * math.log(max(len(start), 2)) * math.sqrt(start.size / steps)
        self._last = start  # the gradient before, once there is one
        self._squared_length = math.inf

    def step(self, gradient: Floats, noise: float) -> None:
        """One step against a gradient that holds noise of this norm."""
        signal = math.sqrt(max(0.0, _length(gradient) ** 2 - noise**2))
        longest = _LONGEST_STEP * math.sqrt(len(gradient)) / max(signal, 1e-300)
        chance = 2 * noise**2 / math.sqrt(gradient.size)  # two standard deviations of a product of noises
        against = -float(np.einsum("ij,ij->", gradient, self._last)) - chance
        self._per_step /= 1 + max(0.0, against) / self._squared_length
        self._last, self._squared_length = gradient, max(_length(gradient) ** 2, 1e-300)
        self.weights = self.weights - min(self._per_step / noise, longest) * gradient

    @property
    def result(self) -> Floats:
        """The weights."""
        return self.weights


def _length(matrix: Floats) -> float:
    """Frobenius norm, without linear algebra: its threads would go on waiting, on the next step's time."""
    return math.sqrt(float(np.einsum("ij,ij->", matrix, matrix)))


@dataclass(frozen=True, eq=False)
class HeadRows:
    """Rows on the grid of `SoftmaxGradient`, with their labels, and whose they are.

    Where persons are protected, theirs are put next to each other, once, so that no step has to. So labels
    and people must be taken from here too, and not from where the rows come from.

    Attributes:
        rows: int32 on the CPU; a float64 tensor of the same integers on a GPU.
        labels: class of each row, where the rows are.
        features: the identity map that checks rows on the CPU again.
        private: where they come from.
        people: whose each row is, where persons are protected.
    """

    rows: Any
    labels: Any
    features: OnLattice
    private: PrivateEmbeddings
    people: People | None = None

    @property
    def examples(self) -> tuple[Any, Any, People | None]:
        """Rows, labels and people, in the order in which mechanisms take them."""
        return self.rows, self.labels, self.people


def head_rows(features: FittedFeatures, private: PrivateEmbeddings, device: str = "cpu") -> HeadRows:
    """Map the rows once, where they will be visited; on the CPU at most half of float64's memory is kept."""
    rows, labels, people = private.rows, private.labels, private.people
    order = None if people is None else sums.by_size(people).order
    if people is not None:
        labels, people = labels[order], people[order]
    identity = OnLattice(features.dimension, ROW_NORM)
    if device == "cuda":
        there = mapped_on_cuda(features, rows, ROW_NORM)
        there = there if order is None else there[cuda.to_device(order)]
        return HeadRows(there, cuda.to_device(labels), identity, private, people)
    mapped = np.empty((len(rows), features.dimension), dtype=np.int32)

    def fill(chunk: slice) -> None:
        mapped[chunk] = features.lattice(rows[chunk if order is None else order[chunk]], ROW_NORM)

    for _ in chunks.over_chunks(fill, len(rows), features.input_dimension):
        pass
    return HeadRows(mapped, labels, identity, private, people)


STEPS_SEE = "every step saw the private rows only through a sum of clipped gradients with Gaussian noise"
STEP_OPTIONS = {"steps": "Noisy steps.", "noise_multiplier": "Noise of a step ÷ clip."}


class UpdateRule:
    """Rule of a descent: its start, its questions about private rows, and what becomes of the answers.

    It sees public and released values only. This one takes the private gradient as it is.

    Args:
        method: whose rule it is.
        features: the fitted map of the rows.
        facts: what is declared of the private rows.
        public: the public rows.

    Attributes:
        start: (classes, dimension) weights, zeros where the method has no start.
        clip: norm that each example's gradient is clipped to.
        bound: as how many such examples a unit counts.
        sizes: of the private classes, declared or counted, where a public start asks for them: the private
            rows' logits have the logs of them beyond those of the start, which treats all classes alike.
    """

    def __init__(
        self, method: Any, features: FittedFeatures, facts: Facts, public: PublicEmbeddings | None
    ) -> None:
        self.method, self.features = method, features
        self.clip: float = method.clip
        self.bound = facts.bound
        self.start: Floats = getattr(method, "start", FromZero()).weights(features, facts, public)
        self.sizes: Floats | None = method.declared_sizes(facts)
        self.read_public(facts, public)

    def read_public(self, facts: Facts, public: PublicEmbeddings | None) -> None:
        """Take from public knowledge what else the rule needs; mostly nothing."""

    @property
    def is_informative(self) -> bool:
        """Whether the start has something to lose by steps along pure noise; zeros have nothing."""
        return bool(self.start.any())

    def trust_in_steps(self, noise: float, worth: float) -> float:
        """Share of the usual noise in a logit that steps may leave beside a public start.

        Let a public logit be wrong by about τ, and the private one, at the rate r, be r·(N·wrong + noise),
        with N the typical class over the noise. The r with the least squared error is proportional to τ²·N
        where that is small, and τ² falls like 1 over the public rows of a class that the start was made of,
        its worth: what says little, or tells little that is new, is listened to little. The power, and the
        N/worth from which the steps go all the way, were chosen with sets left out (docs/methods/adamix.md).

        Args:
            noise: of one answer that has the whole budget.
            worth: how many public rows of a class the start knows as much as.
        """
        if self.sizes is None or not self.is_informative:
            return 1.0
        typical = float(np.exp(np.log(self.sizes).mean())) / noise
        return float(min(1.0, typical / (_SUFFICIENT * worth)) ** 1.5)

    @property
    def offset(self) -> Floats:
        """What the private rows' logits have beyond the weights'."""
        return np.zeros(len(self.start)) if self.sizes is None else np.log(self.sizes)

    def read_released(self, paid: list[GaussianRounds], seen: HeadRows, noise: NoiseSource) -> None:
        """Take the answers of `pre_steps`; by default the counts, where they are released."""
        if paid:
            private, counting = seen.private, paid[0]
            counts = counting.open(noise=noise)
            noisy = counts.release(counting.query, private.rows, private.labels, private.people)
            self.sizes = np.maximum(count_estimates(noisy, counting.scale), 1.0)

    def question(self, weights: Floats, features: FittedFeatures) -> L2Query:
        """The question at these weights, of the planned shape and sensitivity: the clipped gradient."""
        return self.clipped_gradient(weights, features)

    def clipped_gradient(self, weights: Floats, features: FittedFeatures, **more: Any) -> SoftmaxGradient:
        """The clipped gradient at these weights, with other settings of `SoftmaxGradient`."""
        return SoftmaxGradient(features, weights, self.offset, clip=self.clip, bound=self.bound, **more)

    def gradient(self, weights: Floats, answer: Floats) -> Floats:
        """The (classes, dimension) direction to step against: the noisy answer, whatever its length."""
        return answer

    def noise_norm(self, answer: Floats, scale: float) -> float:
        """About the norm of the noise in that gradient, if the answer has noise of this scale."""
        return scale * math.sqrt(answer.size)

    def head(self, weights: Floats) -> Head:
        """The last layer, from the averaged weights."""
        return LinearHead(weights, np.zeros(len(weights)))


def released_before(query: L2Query, rounds: GaussianRounds, share: float) -> GaussianRounds:
    """A release of the query that costs this share, in μ², of what it and the rounds cost together.

    The price of sampled rounds is taken from their central limit, rate²·steps·(exp(1/z²) − 1) (Bu et al.
    2020); under replace-one an answer moves by twice what their noise is in units of. It decides about shares
    alone: the guarantee is computed from the events, exactly.
    """
    z = rounds.noise_multiplier
    gap = rounds.query.l2_sensitivity(rounds.relation) / rounds.sensitivity
    each = rounds.sampling_rate**2 * math.expm1(min(z**-2, 50.0)) if rounds.is_sampled else z**-2
    price = share / (1 - share) * rounds.times * gap**2 * each
    return GaussianRounds(query, max(price**-0.5, SMALLEST_NOISE_MULTIPLIER), rounds.relation, 1)


@dataclass(frozen=True)
class GradientHead(EmbeddingMethod):
    """Base of the methods that step along noisy softmax gradients.

    Attributes:
        features: the public feature map.
        steps: how many; by default what the method says, or as many as the budget allows at the given noise.
        noise_multiplier: noise of one step ÷ clip; by default as small as the budget allows.
        pace: how far the steps go, weight decay toward the start, and the ball they stay in.
        device: where gradients are computed, 'cpu' or 'cuda'; the integers are the same.
    """

    steps: Whole | None = None
    noise_multiplier: Positive | None = None
    pace: NoiseRate | Pace = field(default_factory=NoiseRate)
    device: str = "cpu"
    units: ClassVar[tuple[Unit, ...]] = (Unit.ROW, Unit.PERSON)
    devices: ClassVar[tuple[str, ...]] = cuda.DEVICES
    """Where its steps can be computed."""
    default_steps: ClassVar[int] = 30
    """Rounds when neither their number nor their noise is given: more buy little and take longer."""
    rule_kind: ClassVar[type[UpdateRule]] = UpdateRule

    def __post_init__(self) -> None:
        """Refuse a device that its steps cannot be computed on."""
        super().__post_init__()
        checks.one_of("device", self.device, self.devices)

    @property
    @abstractmethod
    def clip(self) -> float:
        """Norm that each example's gradient is clipped to, in the first step at least."""

    @property
    def rate(self) -> float:
        """Probability with which a step looks at an example, or at a person."""
        return 1.0

    def rule(self, features: FittedFeatures, facts: Facts, public: PublicEmbeddings | None) -> UpdateRule:
        """The rule of the descent, from public knowledge alone."""
        return self.rule_kind(self, features, facts, public)

    def declared_sizes(self, facts: Facts) -> Floats | None:
        """Of the classes, at least 1; None where they are not declared or, as by default, not used."""
        return None

    def worth_of_start(self, facts: Facts, public: PublicEmbeddings | None) -> float:
        """How many public rows of a class a public start knows as much as; for names, about two."""
        return 2.0

    def planned_question(self, outline: FittedFeatures, facts: Facts) -> L2Query:
        """A question of the shape that will be asked."""
        return self.planned_gradient(outline, facts)

    def planned_gradient(self, outline: FittedFeatures, facts: Facts, **more: Any) -> SoftmaxGradient:
        """A gradient of that shape."""
        zero = np.zeros((len(facts.classes), outline.dimension))
        return SoftmaxGradient(outline, zero, zero[:, 0], bound=facts.bound, **more)

    def pre_steps(self, paid: GaussianRounds, outline: FittedFeatures, facts: Facts) -> list[GaussianRounds]:
        """Steps released before these rounds, for a share of their price; by default none."""
        return []

    def plan(self, facts: Facts, budget: Budget, public: PublicEmbeddings | None = None) -> Plan:
        """Rounds of noisy gradients; what is not given of their number and noise is made to fit."""
        outline = self.outline(facts, public)
        query = self.planned_question(outline, facts)

        def releases(z: float, times: int) -> list[GaussianRounds]:
            rounds = GaussianRounds(query, z, budget.relation, times, sampling_rate=self.rate)
            return [*self.pre_steps(rounds, outline, facts), rounds]

        if self.noise_multiplier is None:
            return self.calibrated_plan(lambda z: releases(z, self.steps or self.default_steps), budget)

        def events(times: int) -> list[Event]:
            return [release.event for release in releases(z, times)]

        z = self.noise_multiplier
        steps = self.steps or largest_times(budget, events)
        if not fits(events(steps), budget):
            raise BudgetError(
                f"Steps and noise that are both given must fit the budget; {steps} steps at noise multiplier "
                f"{z:g} do not. Leave one of them out, or raise epsilon."
            )
        return self.make_plan(releases(z, steps), budget)

    def require_public(self, facts: Facts, public: PublicEmbeddings | None) -> None:
        """A GPU that is asked for must be there too."""
        super().require_public(facts, public)
        cuda.use_cuda(self.device)

    def run(self, task: RowsTask) -> Outcome:
        """Ask, make a gradient of the answer, step; everything but the noisy answers is post-processing."""
        *before, paid = rounds_of(task.plan.mechanisms)
        seen = head_rows(task.prepared, task.private, self.device)
        rule = self.rule(task.prepared, task.facts, task.public)
        rule.read_released(before, seen, task.noise)
        rounds = paid.open(noise=task.noise)
        descent: Descent | DescentAtNoiseRate
        if isinstance(self.pace, Pace):
            descent = Descent(rule.start, paid.times, self.pace, is_informative=rule.is_informative)
        else:
            noise_of_sum = paid.scale / (self.rate * math.sqrt(paid.times))  # of all rows, in one answer
            trust = rule.trust_in_steps(noise_of_sum, self.worth_of_start(task.facts, task.public))
            descent = DescentAtNoiseRate(rule.start, paid.times, trust * self.pace.logit_noise)
        for _ in progress.steps(paid.times, "noisy gradient step"):
            question = rule.question(descent.weights, seen.features)
            answer = rounds.release(question, *seen.examples)
            descent.step(rule.gradient(descent.weights, answer), rule.noise_norm(answer, paid.scale))
        return Outcome(rule.head(descent.result), task.plan.events)
