"""Plan a fit: a method's plan and, with a hold-out, the check of those held out, under one charge.

Who is held out is drawn by a coin per unit. No unit is in both parts, and under replace-one neither are a
unit and its successor, so the fit and the check may each spend the whole budget (`DisjointEvent`).
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import cached_property

import numpy as np

from dptransfer.accounting import fits, guarantee_of
from dptransfer.base import checks
from dptransfer.data import Facts, PrivateData, PublicData
from dptransfer.errors import ArgumentError, DPTransferError
from dptransfer.exact.feature_map import FittedFeatures
from dptransfer.exact.sums import sampled_rows, units_of
from dptransfer.mechanisms import GaussianMechanism
from dptransfer.methods.method import Outcome, Plan, PrivateMethod, with_query
from dptransfer.methods.private_evaluation import (
    evaluation_query,
    mechanism_for,
    planned_query,
    run_evaluation,
)
from dptransfer.noise import NoiseSource
from dptransfer.privacy import Budget, Event, Guarantee, Unit
from dptransfer.release.charged_evaluation import ChargedEvaluation, join_fit_and_check


@dataclass(frozen=True, eq=False)
class FitPlan:
    """Steps and price of one fit, from public facts alone.

    Attributes:
        asked: the method that was asked for.
        facts: what is declared of all the private examples.
        budget: of fit and check together.
        plan: of the method, on the examples that are not held out.
        pool: size of the public data, and number of labels of their encoder; None without public data.
        holdout: the chance with which a unit is held out; None for no hold-out.
        check: the question about the units held out, of a head that is not there yet.
    """

    asked: PrivateMethod
    facts: Facts
    budget: Budget
    plan: Plan
    pool: tuple[int, int] | None = None
    holdout: float | None = None
    check: GaussianMechanism | None = None

    @classmethod
    def make(
        cls,
        method: PrivateMethod,
        facts: Facts,
        budget: Budget,
        public: PublicData | None,
        holdout: float | None,
    ) -> FitPlan:
        """Plan the fit and the check of a hold-out; sees public facts only."""
        check, own = None, facts
        if holdout is not None:
            if not 0 < checks.positive("holdout", holdout) < 1:
                raise ArgumentError(f"holdout must lie between 0 and 1; got {holdout!r}. Usual is 0.2.")
            own = facts_of_fit(facts, holdout)
            check = mechanism_for(planned_query(facts.classes, facts.bound), budget)
        plan = method.plan(own, budget, public)
        return cls(method, facts, budget, plan, _pool_of(plan.method, public), holdout, check)

    @property
    def method(self) -> PrivateMethod:
        """The method that will run: the one asked for, or the one that it chose."""
        return self.plan.method

    @cached_property
    def events(self) -> tuple[Event, ...]:
        """What fit and check cost together."""
        own = self.plan.events
        return (
            own if self.check is None else join_fit_and_check(own, (self.check.event,), self.holdout or 0.0)
        )

    @cached_property
    def guarantee(self) -> Guarantee:
        """What they promise together."""
        own = self.plan.guarantee
        if self.check is None:
            return own
        return guarantee_of(self.events, self.budget.delta, own.assumptions, relation=own.relation)

    @property
    def notes(self) -> tuple[str, ...]:
        """How the hold-out was drawn and what it costs, for the user and the card."""
        if self.holdout is None:
            return ()
        people = self.facts.unit is Unit.PERSON
        many, nobody = ("people", "No one") if people else ("examples", "No example")
        return (
            f"{100 * self.holdout:g}% of {many}, chosen at random, are kept out of training and used for "
            f"testing. {nobody} is in both parts, so the privacy cost is the larger of the two, not the sum.",
        )

    @property
    def facts_of_fit(self) -> Facts:
        """What is declared of the examples that the method gets."""
        return self.facts if self.holdout is None else facts_of_fit(self.facts, self.holdout)

    def require_made_for(
        self,
        method: PrivateMethod,
        facts: Facts,
        budget: Budget,
        public: PublicData | None,
        holdout: float | None,
    ) -> None:
        """Raise unless this plan was made for the same request."""
        made = self.asked, self.facts, self.budget, self.holdout, self.pool
        if made != (method, facts, budget, holdout, _pool_of(self.method, public)):
            raise ArgumentError(
                "A plan belongs to the method, facts, budget, hold-out and public data it was made for; "
                "some of these are others. Plan again with plan_fit, or leave the plan out."
            )

    def require_honest(self) -> None:
        """Compute the plan's promise again from its steps, and raise unless it is kept and affordable."""
        plan, budget, unit = self.plan, self.budget, self.facts.unit
        known = None if plan.events else unit
        assumed = plan.guarantee.assumptions
        promise = guarantee_of(plan.events, budget.delta, assumed, relation=budget.relation, unit=known)
        protects = {plan.guarantee.unit, *(event.unit for event in plan.events)} == {unit}
        if not fits(self.events, budget) or plan.guarantee != promise or not protects:
            raise DPTransferError(
                "A plan must stay within its budget, protect the declared unit and promise what its steps "
                f"give; that of '{plan.method.name}' does not. Nothing was read or charged; please report "
                "this."
            )

    def split(self, private: PrivateData, noise: NoiseSource) -> tuple[PrivateData, PrivateData | None]:
        """Split the examples into those of the fit and those held out; a resumed run has the same ones."""
        if self.holdout is None:
            return private, None
        chance, units = self.holdout, units_of(len(private.labels), private.people)
        taken = noise.draw_once("units held out", lambda: noise.poisson_sample(units, chance))
        held_out = sampled_rows(taken, private.people)
        own = np.delete(np.arange(len(private.labels)), held_out)
        return private.part(own, self.facts_of_fit), private.part(held_out, self.facts_of_fit)

    def evaluate(
        self,
        held_out: PrivateData | None,
        outcome: Outcome,
        features: FittedFeatures,
        noise: NoiseSource,
        head: str,
    ) -> ChargedEvaluation | None:
        """Evaluate the fitted head on the examples held out."""
        if self.check is None or held_out is None:
            return None
        question = evaluation_query(outcome.head, features, held_out.facts.bound)
        asked = with_query(self.check, **{one.name: getattr(question, one.name) for one in fields(question)})
        rows = self.method.rows_for_head(held_out, outcome)
        found = run_evaluation(asked, rows, held_out, self.budget, noise, head)
        return replace(found, holdout=self.holdout)


def _pool_of(method: PrivateMethod, public: PublicData | None) -> tuple[int, int] | None:
    """Size of the public data and number of their encoder's labels, which a plan depends on."""
    if public is None:
        return None
    words = method.with_words(public).vocabulary if getattr(method, "takes_words", False) else None
    return len(public), len(words or ())


def facts_of_fit(facts: Facts, chance: float) -> Facts:
    """Facts of the rows that are left; class sizes are no longer known, as the hold-out is drawn.

    A method that needs declared class sizes refuses such facts when it plans.
    """
    size = facts.declared_size
    left = None if size is None else max(1, round(size * (1 - chance)))
    return replace(facts, size=left, class_counts=None)
