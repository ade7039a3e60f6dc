"""A fit that keeps some units for a check: who is kept is drawn by a coin per unit, inside the one charge.

No unit is in both parts, and under replace-one neither are a unit and its successor, so the fit and the check
may each spend the whole budget (`DisjointEvent`).
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from dptransfer.accounting import guarantee_of
from dptransfer.base import checks
from dptransfer.data import Facts, Labelled, PrivateData, PrivateEmbeddings
from dptransfer.encoders import Encoder, encode_pixels
from dptransfer.errors import ArgumentError
from dptransfer.exact.sums import sampled_rows, units_of
from dptransfer.ledger import Receipt
from dptransfer.mechanisms import GaussianMechanism
from dptransfer.methods.base import Outcome, Plan, PrivateMethod, with_query
from dptransfer.methods.image_method import ImageMethod
from dptransfer.methods.private_evaluation import evaluation_query, measured, mechanism_for, planned_query
from dptransfer.noise import NoiseSource
from dptransfer.privacy import Budget, Event, Guarantee, Unit
from dptransfer.release.charged_evaluation import ChargedEvaluation, joined
from dptransfer.sources import PrivateImages

if TYPE_CHECKING:
    from dptransfer.exact.feature_map import FittedFeatures


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
        return cls(chance, method.plan(own, budget, public), mechanism_for(question, budget), budget)

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
        people = self.check.query.unit is Unit.PERSON
        many, nobody = ("people", "No one") if people else ("examples", "No example")
        return (
            f"{100 * self.chance:g}% of {many}, chosen at random, are kept out of training and used for "
            f"testing. {nobody} is in both parts, so the privacy cost is the larger of the two, not the sum."
        )

    def facts_of_fit(self, facts: Facts) -> Facts:
        """What is declared of the examples that the fit gets."""
        return facts_of_fit(facts, self.chance)

    def split(self, private: PrivateData, noise: NoiseSource) -> tuple[PrivateData, PrivateData]:
        """The examples of the fit and those held out; a run that goes on in a workspace has the same ones."""
        units = units_of(len(private.labels), private.people)
        taken = noise.once("units held out", lambda: noise.poisson_sample(units, self.chance))
        held = sampled_rows(taken, private.people)
        own = np.delete(np.arange(len(private.labels)), held)
        facts = self.facts_of_fit(private.facts)
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
    if not 0 < checks.positive("holdout", chance) < 1:
        raise ArgumentError(f"holdout must lie between 0 and 1; got {chance!r}. Usual is 0.2.")
    return float(chance)


def facts_of_fit(facts: Facts, chance: float) -> Facts:
    """What is public of the rows that are left: their sizes are drawn, so class sizes are not known any more.

    A method that needs declared class sizes refuses such facts when it plans.
    """
    size = facts.declared_size
    left = None if size is None else max(1, round(size * (1 - chance)))
    return replace(facts, size=left, class_counts=None)
