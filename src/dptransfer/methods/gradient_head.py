"""What the methods that train a softmax head by noisy gradients share: the plan, the loop, the head."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from dptransfer import _check
from dptransfer.accounting import fits, largest_times, noise_multiplier_for
from dptransfer.arrays import Floats
from dptransfer.compute.device import DEVICES, use_cuda
from dptransfer.data import Facts, PrivateEmbeddings, PublicEmbeddings
from dptransfer.errors import BudgetError
from dptransfer.features import FittedFeatures
from dptransfer.mechanisms import GaussianRounds, rounds_of
from dptransfer.methods.base import EmbeddingMethod, Outcome, Plan
from dptransfer.methods.descent import Descent, Pace
from dptransfer.methods.head_rows import HeadRows, head_rows
from dptransfer.noise import NoiseSource
from dptransfer.privacy import Bound, Budget, Event, Unit
from dptransfer.progress import steps as counted
from dptransfer.queries import L2Query, SoftmaxGradient
from dptransfer.release.heads import Head, LinearHead

STEPS_SEE = "every step saw the private rows only through a sum of clipped gradients with Gaussian noise"
STEP_OPTIONS = {"steps": "Noisy steps.", "noise_multiplier": "Noise of a step ÷ clip."}


@dataclass(eq=False)
class Guide:
    """Says where descent starts, what it asks of the private rows, what it makes of answers, and of the end.

    It sees public and released values only. This one takes the private gradient as it is.

    Attributes:
        start: (classes, dimension) weights.
        clip: norm that each example's gradient is clipped to.
        bound: as how many such examples a unit counts.
    """

    start: Floats
    clip: float
    bound: Bound

    @property
    def knows(self) -> bool:
        """Whether there is something to lose by steps along pure noise: a start of zeros has nothing."""
        return bool(self.start.any())

    def question(self, weights: Floats, features: FittedFeatures) -> L2Query:
        """What to ask at these weights, of the planned shape and sensitivity: the clipped gradient."""
        return SoftmaxGradient(features, weights, np.zeros(len(weights)), clip=self.clip, bound=self.bound)

    def gradient(self, weights: Floats, answer: Floats) -> Floats:
        """The (classes, dimension) direction to step against: the noisy answer, whatever its length."""
        return answer

    def noise_norm(self, answer: Floats, scale: float) -> float:
        """About the norm of the noise in that gradient, if the answer has noise of this scale."""
        return scale * math.sqrt(answer.size)

    def head(self, weights: Floats) -> Head:
        """The last layer, from the averaged weights."""
        return LinearHead(weights, np.zeros(len(weights)))


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

    steps: int | None = None
    noise_multiplier: float | None = None
    pace: Pace = field(default_factory=Pace)
    device: str = "cpu"
    units: ClassVar[tuple[Unit, ...]] = (Unit.ROW, Unit.PERSON)
    checks: ClassVar[_check.Checks] = {
        "steps": _check.or_none(_check.whole),
        "noise_multiplier": _check.or_none(_check.positive),
    }
    default_steps: ClassVar[int] = 30
    """Rounds when neither their number nor their noise is given: more buy little and take longer."""

    def __post_init__(self) -> None:
        """Refuse a device that its steps cannot be computed on."""
        super().__post_init__()
        _check.one_of("device", self.device, self.devices)

    @property
    def devices(self) -> tuple[str, ...]:
        """Where its steps can be computed, as it is set."""
        return DEVICES

    @property
    def rate(self) -> float:
        """Probability with which a step looks at an example, or at a person."""
        return 1.0

    @abstractmethod
    def guide(self, features: FittedFeatures, facts: Facts, public: PublicEmbeddings | None) -> Guide:
        """What leads the descent, from public knowledge alone."""

    def planned_question(self, outline: FittedFeatures, facts: Facts) -> L2Query:
        """A question of the shape that will be asked."""
        zero = np.zeros((len(facts.classes), outline.dimension))
        return SoftmaxGradient(outline, zero, zero[:, 0], bound=facts.bound)

    def beforehand(self, facts: Facts, rounds: GaussianRounds) -> list[GaussianRounds]:
        """What is released before these rounds, for a share of what they cost; nothing, mostly."""
        return []

    def plan(self, facts: Facts, budget: Budget, public: PublicEmbeddings | None = None) -> Plan:
        """Rounds of noisy gradients; what is not given of their number and noise is made to fit."""
        query = self.planned_question(self.outline(facts, public), facts)

        def releases(z: float, times: int) -> list[GaussianRounds]:
            rounds = GaussianRounds(query, z, budget.relation, times, sampling_rate=self.rate)
            return [*self.beforehand(facts, rounds), rounds]

        def events(z: float, times: int) -> list[Event]:
            return [release.event for release in releases(z, times)]

        steps, z = self.steps, self.noise_multiplier
        if z is not None and steps is None:
            given = z
            steps = largest_times(budget, lambda times: events(given, times))
        taken = steps or self.default_steps
        if z is None:
            z = noise_multiplier_for(budget, lambda z: events(z, taken))
        elif not fits(events(z, taken), budget):
            raise BudgetError(
                f"Steps and noise that are both given must fit the budget; {taken} steps at noise multiplier "
                f"{z:g} do not. Leave one of them out, or raise epsilon."
            )
        return self.make_plan(releases(z, taken), budget)

    def require_public(self, facts: Facts, public: PublicEmbeddings | None) -> None:
        """A GPU that is asked for must be there too."""
        super().require_public(facts, public)
        use_cuda(self.device)

    def run(
        self,
        plan: Plan,
        features: FittedFeatures,
        private: PrivateEmbeddings,
        noise: NoiseSource,
        public: PublicEmbeddings | None,
    ) -> Outcome:
        """Ask, make a gradient of the answer, step; everything but the noisy answers is post-processing."""
        *before, paid = rounds_of(plan.mechanisms)
        seen = head_rows(features, private, self.device)
        guide = self.informed(self.guide(features, private.facts, public), before, seen, noise)
        rounds = paid.open(noise=noise)
        descent = Descent(guide.start, paid.times, self.pace, knows=guide.knows)
        for _ in counted(paid.times, "noisy gradient step"):
            question = guide.question(descent.weights, seen.features)
            answer = rounds.release(question, seen.rows, seen.labels, seen.people)
            gradient = guide.gradient(descent.weights, answer)
            descent.step(gradient, guide.noise_norm(answer, paid.scale))
        return Outcome(guide.head(descent.average), plan.events)

    def informed(
        self, guide: Guide, before: Sequence[GaussianRounds], seen: HeadRows, noise: NoiseSource
    ) -> Guide:
        """The guide, with what is released before the gradients; as it is, mostly."""
        return guide
