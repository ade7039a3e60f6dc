"""Plan, prepare, draw a hold-out, charge, run, wrap: a fit, written once for every method.

With a hold-out, fit and test are under one charge. Who is held out is drawn by a coin per unit. No unit is in
both parts, and under replace-one neither are a unit and its successor, so the fit and the check may each
spend the whole budget (`DisjointEvent`).

A method of another package is tried on made-up data before anything is charged for it. A run must take the
steps that its plan said, or nothing may be released; found out after the charge, that costs the owner's
budget. So whoever brings a method of their own has its run tried first on a few made-up examples with the
same declared facts, the same plan and the same public data, and with noise that is thrown away. It depends on
public values alone. The methods of this library are tested, and not tried again. What is tried may still do
otherwise on real data: `require_as_planned` asks again after the run.
"""

from __future__ import annotations

import datetime
import hashlib
import os
import secrets
from collections.abc import Iterable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

import numpy as np

from dptransfer.accounting import fits, guarantee_of
from dptransfer.base import checks, progress
from dptransfer.data import Facts, PrivateData, PrivateEmbeddings, PublicData, examples, sharded_rows
from dptransfer.data.labels import Labelled
from dptransfer.errors import ArgumentError, DPTransferError, WorkspaceError
from dptransfer.exact.feature_map import FittedFeatures
from dptransfer.exact.sums import sampled_rows, units_of
from dptransfer.ledger import Ledger
from dptransfer.mechanisms import (
    GaussianMechanism,
    GaussianRounds,
    GaussianShares,
    JointRounds,
    Selection,
    Step,
    rounds_of,
)
from dptransfer.mechanisms.row_shares import not_recording
from dptransfer.mechanisms.witness import draw_witnesses
from dptransfer.methods import METHODS, private_evaluation
from dptransfer.methods.charging import charge_run, open_workspace
from dptransfer.methods.checkpoint import RecordedNoise
from dptransfer.methods.method import (
    Outcome,
    Plan,
    PrivateMethod,
    Task,
    configuration_of,
    require_as_planned,
    with_query,
)
from dptransfer.noise import NoiseSource, SeededNoise
from dptransfer.privacy import Budget, Event, Guarantee, Unit, event_to_dict
from dptransfer.privacy.witnesses import coin_digest
from dptransfer.release import classifier, manifest
from dptransfer.release.charged_evaluation import ChargedEvaluation, join_fit_and_check
from dptransfer.sources import PrivateImages


@dataclass(frozen=True, eq=False)
class FitPlan:
    """Steps and price of one fit, from public facts alone.

    Attributes:
        asked: the method that was asked for.
        facts: what is declared of all the private examples.
        budget: of fit and check together.
        plan: of the method, on the examples that are not held out.
        pool: size of the public data, numbers of labels of their encoder and of class names that it read;
            None without public data.
        holdout: the chance with which a unit is held out; None for no hold-out.
        check: the question about the units held out, of a head that is not there yet.
    """

    asked: PrivateMethod
    facts: Facts
    budget: Budget
    plan: Plan
    pool: tuple[int, int, int] | None = None
    holdout: float | None = None
    check: GaussianMechanism | None = None

    @classmethod
    def make(
        cls, method: PrivateMethod, facts: Facts, budget: Budget, public: PublicData | None, holdout: Any
    ) -> FitPlan:
        """Plan the fit and the check of a hold-out; sees public facts only."""
        check, own = None, facts
        if holdout is not None:
            if not 0 < checks.positive("holdout", holdout) < 1:
                raise ArgumentError(f"holdout must lie between 0 and 1; got {holdout!r}. Usual is 0.2.")
            own = facts_of_fit(facts, holdout)
            question = private_evaluation.planned_query(facts.classes, facts.bound)
            check = private_evaluation.mechanism_for(question, budget)
        plan = method.plan(own, budget, public)
        return cls(method, facts, budget, plan, _pool_of(plan.method, public, facts), holdout, check)

    @property
    def method(self) -> PrivateMethod:
        """The method that will run: the one asked for, or the one that it chose."""
        return self.plan.method

    @cached_property
    def events(self) -> tuple[Event, ...]:
        """What fit and check cost together."""
        if self.check is None:
            return self.plan.events
        return join_fit_and_check(self.plan.events, (self.check.event,), self.holdout or 0.0)

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
        self, method: PrivateMethod, facts: Facts, budget: Budget, public: PublicData | None, holdout: object
    ) -> None:
        """Raise unless this plan was made for the same request."""
        made = self.asked, self.facts, self.budget, self.holdout, self.pool
        if made != (method, facts, budget, holdout, _pool_of(self.method, public, facts)):
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
        self, held_out: PrivateData, outcome: Outcome, features: FittedFeatures, noise: NoiseSource, head: str
    ) -> ChargedEvaluation:
        """Evaluate the fitted head on the examples held out."""
        question = private_evaluation.evaluation_query(outcome.head, features, held_out.facts.bound)
        asked = with_query(self.check, **{one.name: getattr(question, one.name) for one in fields(question)})
        rows = self.method.rows_for_head(held_out, outcome)
        found = private_evaluation.run_evaluation(asked, rows, held_out, self.budget, noise, head)
        return replace(found, holdout=self.holdout)


def _pool_of(method: PrivateMethod, public: PublicData | None, facts: Facts) -> tuple[int, int, int] | None:
    """Size of the public data and numbers of what their encoder adds, which a plan depends on."""
    if public is None:
        return None
    described = method.with_words(public, facts) if getattr(method, "takes_words", False) else None
    words, names = (getattr(described, one, None) for one in ("vocabulary", "names"))
    return len(public), len(words or ()), 0 if names is None else len(names)


def facts_of_fit(facts: Facts, chance: float) -> Facts:
    """Facts of the rows that are left; class sizes are no longer known, as the hold-out is drawn.

    A method that needs declared class sizes refuses such facts when it plans.
    """
    size = facts.declared_size
    left = None if size is None else max(1, round(size * (1 - chance)))
    return replace(facts, size=left, class_counts=None)


_MOST_EXAMPLES = 32  # of a rehearsal


def fit_planned(
    made: FitPlan,
    private: PrivateData,
    public: PublicData | None,
    ledger: Ledger,
    noise: NoiseSource,
    new_data_set: bool,
    workspace: str | os.PathLike[str] | None,
    witnesses: bool = True,
) -> classifier.PrivateClassifier:
    """Prepare, charge the ledger, run, and wrap the result; arguments as for `PrivateMethod.fit`."""
    plan, method = made.plan, made.method
    method.require_data(private, public)
    method.require_public(private.facts, public)
    public = method.with_words(public, private.facts)
    task = Task(plan, method.prepare(private.facts, public), private, noise, public)
    rehearse(task, made.facts_of_fit)
    public_facts = None if public is None else public.record  # here, as it may read public files
    with nullcontext() if workspace is None else open_workspace(workspace, noise) as checkpoint:
        number = None
        if checkpoint is not None:
            number = checkpoint.bind(_request(made, private, public, public_facts))
        answers = gaussian_answers(plan.mechanisms) if witnesses else 0
        seed = _coin_seed(noise, number)
        coins = coin_digest(seed) if answers else None
        charge = charge_run(ledger, private, made.events, method.name, new_data_set, number, public, coins)
        with charge as receipt:
            if checkpoint is not None:
                noise = RecordedNoise(noise, checkpoint, finished=receipt.finished)
            train, held_out = made.split(private, noise)
            with draw_witnesses(seed, answers) if answers else nullcontext() as drawn:
                outcome = method.run(replace(task, private=train, noise=noise))
            require_as_planned(plan, outcome)
            features = task.prepared if outcome.features is None else outcome.features
            evaluation = None
            if held_out is not None:
                evaluation = made.evaluate(held_out, outcome, features, noise, receipt.head)
    return classifier.PrivateClassifier(
        head=outcome.head,
        features=features,
        facts=replace(train.facts, encoder=outcome.encoder) if outcome.encoder else train.facts,
        events=made.events,
        guarantee=made.guarantee,
        provenance=classifier.Provenance(
            method=method.name,
            configuration=configuration_of(method),
            seeded=noise.seeded,
            notes=(*plan.notes, *outcome.notes, *made.notes),
            public=public_facts,
            ledger_head=receipt.head,
            created=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            versions=manifest.current_versions(*_packages(method)),
            prototypes=examples.public_record(outcome.prototypes, private.facts, public),
            answers=examples.public_record(outcome.answers, private.facts, public),
            summary=method.about.card,
            reference=method.about.reference,
        ),
        encoder_delta=outcome.encoder_delta,
        charged=evaluation,
        witnesses=None if drawn is None else drawn.witnesses,
    )


def gaussian_answers(steps: Iterable[Step]) -> int:
    """How many answers with Gaussian noise these steps give; 0 where it must not be known, or is not.

    Shares of one budget are told by and by, and are taken for four.
    """
    count = 0
    for step in steps:
        if isinstance(step, GaussianRounds | JointRounds):
            count += sum(one.times for one in rounds_of([step]))
        elif isinstance(step, GaussianMechanism | GaussianShares):
            count += 4 if isinstance(step, GaussianShares) else 1
        elif not isinstance(step, Selection):
            return 0
    return count


def _coin_seed(noise: NoiseSource, workspace: str | None) -> str:
    """Seed of the canaries' coins: of a run that goes on, and of seeded noise, the same as before."""
    known = workspace or (repr(noise) if noise.seeded else None)
    return secrets.token_hex(32) if known is None else hashlib.sha256(f"coins {known}".encode()).hexdigest()


def _request(
    made: FitPlan, private: PrivateData, public: PublicData | None, public_facts: Mapping[str, object] | None
) -> dict[str, object]:
    """Identity of a fit, which a resumed run must share with the one that was interrupted.

    Rows are digested again: an array, or a file that is mapped, may be another since they were first read.
    """
    if not private.is_unchanged():
        raise WorkspaceError(
            "A resumed run needs the examples that it began with; these changed since they were first read. "
            "Nothing was charged. Make the data object again, and do not write to its array."
        )
    method = made.method
    return {
        "method": method.name,
        "software version": manifest.current_versions(*_packages(method)),
        "configuration": configuration_of(method),
        **({} if made.holdout is None else {"hold-out": made.holdout}),
        "budget": [event_to_dict(event) for event in made.events],
        "list of declared facts": private.facts.to_dict(),
        "public data set": public_facts,
        # Bytes are scored as they are, and the same rows in floats are not: pieces must not be mixed.
        "form of public rows": sharded_rows.stored_bytes(getattr(public, "rows", None)),
        "private data set": private.fingerprint,
        "person for some row": None if private.people is None else examples.content_digest(private.people),
    }


def _packages(method: PrivateMethod) -> set[str]:
    """The packages that add this method, or one that it chooses among, to the library's own."""
    found = {METHODS.package(one.name) for one in (method, *getattr(method, "candidates", ()))}
    return {package for package in found if package is not None}


def rehearse(task: Task[Any, Any, Any], facts: Facts) -> None:
    """Raise if the method is not this library's own and its run on made-up data is not as planned.

    Args:
        task: what is to run; of the private data only the type is looked at, and how pictures were read.
        facts: what is declared of the data that the run gets.
    """
    method = task.plan.method
    them = (method, *getattr(method, "candidates", ()))
    if all(type(one).__module__.partition(".")[0] == "dptransfer" for one in them):
        return
    tried = replace(task, private=make_up_examples(task.private, facts), noise=SeededNoise(0))
    try:
        with progress.reported_to(lambda *_: None), not_recording():
            require_as_planned(task.plan, method.run(tried))
    except Exception as problem:
        said = " ".join(f"{type(problem).__name__}: {problem}".split()).rstrip(".")
        raise DPTransferError(
            "A method of another package is tried on made-up examples before it is charged for; the run of "
            f"'{method.name}' failed ({said}). Nothing was read or charged. Its author must repair it: "
            "with_query gives a planned step its fitted features."
        ) from problem


def make_up_examples(private: PrivateData, facts: Facts) -> PrivateData:
    """A few random examples of the kind, with these declared facts; no private value is looked at."""
    rng = np.random.default_rng(0)
    count = min(2 * len(facts.classes), _MOST_EXAMPLES)
    labels = Labelled(np.arange(count) % len(facts.classes), facts.classes)
    people = np.arange(count) // 2 if facts.unit is Unit.PERSON else None
    found: PrivateData
    if isinstance(private, PrivateImages):
        pixels = rng.integers(0, 256, (count, *facts.shape), dtype=np.uint8)
        found = PrivateImages(pixels, labels, people=people, grey_range=private.grey_range)
    else:
        found = PrivateEmbeddings(rng.normal(size=(count, facts.dimension)), labels, people=people)
    found.facts = facts
    return found
