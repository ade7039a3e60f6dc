"""A fit that keeps some units for a check: who is kept is drawn by a coin per unit, inside the one charge.

Under add/remove nobody is in both parts, so the fit and the check may each spend the whole budget
(`DisjointEvent`). Under replace-one both are paid: the check gets a tenth of the price, and the fit the rest.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from dptransfer import _check
from dptransfer.accounting import epsilon_of_mu, fits, guarantee_of
from dptransfer.compute.people import sampled_rows, units_of
from dptransfer.data import Facts, Labelled, PrivateData, PrivateEmbeddings, PrivateImages
from dptransfer.encoders import Encoder, encode_pixels
from dptransfer.errors import ArgumentError, BudgetError
from dptransfer.ledger import Receipt
from dptransfer.mechanisms import GaussianMechanism
from dptransfer.methods.base import Outcome, Plan, PrivateMethod, with_query
from dptransfer.methods.image_method import ImageMethod
from dptransfer.methods.private_evaluation import evaluation_query, measured, mechanism_for, planned_query
from dptransfer.noise import NoiseSource
from dptransfer.privacy import Budget, Event, Guarantee, Relation
from dptransfer.release.charged_evaluation import ChargedEvaluation, joined

if TYPE_CHECKING:
    from dptransfer.features import FittedFeatures

CHECK_SHARE = 0.1
"""What the check of a hold-out gets of the price where fit and check are both paid."""
_SHRINK, _MOST_TRIES = 0.97, 40  # of a fit's part, where its steps add up worse than noise does


@dataclass(frozen=True, eq=False)
class HoldOut:
    """A fit and the check of what it held out, planned together.

    Attributes:
        chance: with which a unit is held out.
        plan: of the fit, on the rest.
        check: the question about the units held out, of a head that is not there yet.
        budget: of both.
    """

    chance: float
    plan: Plan
    check: GaussianMechanism
    budget: Budget

    @classmethod
    def planned(
        cls, method: PrivateMethod, facts: Facts, budget: Budget, public: Any, chance: float
    ) -> HoldOut:
        """The fit's plan and the check's noise; sees public facts only."""
        chance = required_chance(chance)
        own = facts_of_fit(facts, chance)
        question = planned_query(facts)
        if budget.relation is Relation.ADD_REMOVE:
            return cls(chance, method.plan(own, budget, public), mechanism_for(question, budget), budget)
        check = mechanism_for(question, budget, CHECK_SHARE)
        rest = _rest_of(budget, check)
        for _ in range(_MOST_TRIES):
            plan = method.plan(own, rest, public)
            if fits((*plan.events, check.event), budget):
                return cls(chance, plan, check, budget)
            less: dict[str, Any] = {rest.currency: rest.amount * _SHRINK}
            rest = replace(rest, **less)
        raise BudgetError(
            f"A fit and the check of its hold-out must fit one budget; the steps of '{method.name}' do not. "
            "Leave out the hold-out, and evaluate on test rows of their own."
        )

    @property
    def events(self) -> tuple[Event, ...]:
        """What fit and check cost together."""
        return joined(self.plan.events, (self.check.event,), self.chance)

    @property
    def guarantee(self) -> Guarantee:
        """What they promise together."""
        own = self.plan.guarantee
        return guarantee_of(self.events, self.budget.delta, own.assumptions, relation=own.relation)

    @property
    def note(self) -> str:
        """How it was drawn and what it costs, for the user and the card."""
        unit = self.check.query.unit
        paid = "nobody is in both, so the dearer of the two is the price"
        if self.budget.relation is Relation.REPLACE_ONE:
            paid = f"both are paid, and the check has about {CHECK_SHARE:.0%} of the price"
        return (
            f"Each {'example' if unit.value == 'row' else f'{unit.words},'} is held out from the fit with "
            f"probability {self.chance:g}, by a coin of its own, and used to check the result: {paid}."
        )

    def split(self, private: PrivateData, noise: NoiseSource) -> tuple[PrivateData, PrivateData]:
        """The examples of the fit and those held out; a run that goes on in a workspace has the same ones."""
        units = units_of(len(private.labels), private.people)
        taken = noise.once("units held out", lambda: noise.poisson_sample(units, self.chance))
        held = sampled_rows(taken, private.people)
        own = np.delete(np.arange(len(private.labels)), held)
        facts = facts_of_fit(private.facts, self.chance)
        return private.part(own, facts), private.part(held, facts)

    def checked(
        self,
        held: Any,
        outcome: Outcome,
        features: FittedFeatures,
        noise: NoiseSource,
        receipt: Receipt,
    ) -> ChargedEvaluation:
        """How the fitted head does on the examples held out; of pictures, on the rows of its encoder."""
        question = evaluation_query(outcome.head, features, held.facts.bound)
        asked = with_query(self.check, **{one.name: getattr(question, one.name) for one in fields(question)})
        method = self.plan.method
        if isinstance(method, ImageMethod):
            held = encoded(held, method.encoder_after(outcome.encoder, outcome.encoder_delta))
        return measured(
            asked, held, held.facts.classes, self.budget, noise, head=receipt.head, holdout=self.chance
        )


def encoded(pictures: PrivateImages, encoder: Encoder) -> PrivateEmbeddings:
    """Private pictures as rows of this encoder, each a function of its picture alone."""
    facts = pictures.facts
    return PrivateEmbeddings(
        encode_pixels(pictures.pixels, encoder),
        Labelled(pictures.labels, facts.classes),
        encoder=encoder.identity,
        name=pictures.name,
        size=facts.size,
        people=pictures.people,
        person_bound=facts.person_bound,
        rows_per_person=facts.rows_per_person,
    )


def required_chance(chance: float) -> float:
    """A chance that leaves something on either side."""
    if not 0 < _check.positive("holdout", chance) < 1:
        raise ArgumentError(f"holdout must lie between 0 and 1; got {chance!r}. Usual is 0.2.")
    return float(chance)


def facts_of_fit(facts: Facts, chance: float) -> Facts:
    """What is public of the rows that are left: their sizes are drawn, so class sizes are not known any more.

    A method that needs declared class sizes refuses such facts when it plans.
    """
    size = facts.declared_size
    left = None if size is None else max(1, round(size * (1 - chance)))
    return replace(facts, size=left, class_counts=None)


def _rest_of(budget: Budget, check: GaussianMechanism) -> Budget:
    """The budget of the fit: what noise would have that makes up the price together with the check's."""
    if budget.flavour == "zcdp":
        return replace(budget, rho=budget.amount * (1 - CHECK_SHARE))
    if budget.flavour == "gdp":
        return replace(budget, mu=budget.amount * (1 - CHECK_SHARE) ** 0.5)
    mu = ((1 - CHECK_SHARE) / CHECK_SHARE) ** 0.5 / check.noise_multiplier
    return replace(budget, epsilon=epsilon_of_mu(mu, budget.delta) * (1 - 1e-4))  # a hair for the grid
