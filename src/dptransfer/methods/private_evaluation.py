"""Evaluate a released classifier on private rows by one noisy answer, charged to the rows' own account."""

from __future__ import annotations

import datetime
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from dptransfer.accounting import guarantee_of, noise_multiplier_for, warn_if_weak
from dptransfer.base.types import AnyArray, Floats, JsonObject
from dptransfer.data import Facts, PrivateData, PrivateEmbeddings
from dptransfer.data.facts import require_same_encoder
from dptransfer.errors import ArgumentError, Incompatible
from dptransfer.exact import chunks, feature_map
from dptransfer.exact.evaluation_layout import EvaluationLayout
from dptransfer.ledger import Ledger
from dptransfer.mechanisms import GaussianMechanism, mechanism
from dptransfer.methods.charging import charge_run, with_defaults
from dptransfer.noise import NoiseSource
from dptransfer.privacy import Bound, Budget, GaussianEvent
from dptransfer.queries.evaluation_counts import EvaluationCounts
from dptransfer.release.charged_evaluation import ChargedEvaluation, NoisyCounts
from dptransfer.release.classifier import PrivateClassifier
from dptransfer.release.heads import CosineHead, Head, LinearHead, score_arrays

ASSUMPTIONS = ("the classifier and its settings were fixed without looking at the test rows",)
"""What must hold for the guarantee of a charged evaluation, beyond the code being right."""


@dataclass(frozen=True, eq=False)
class PrivateEvaluation:
    """Differentially private evaluation of a classifier.

    Releases:      noisy histograms of right and wrong predictions (`EvaluationCounts`), all in one answer;
                   accuracy, recall, precision and calibration with their intervals follow from them.
    Guarantee:     one GaussianEvent.
    Relation:      the budget's.
    Sensitivity:   `EvaluationCounts`'.
    Assumes:       a classifier that was released, or fixed otherwise, without these rows. Rows that it was
                   fitted on are no test, but they stay protected: name them as then, and both charges add up
                   in one account.
    Reference:     `queries.evaluation_counts` and `release.charged_evaluation`.

    Attributes:
        model: the classifier.
    """

    model: PrivateClassifier

    def plan(self, facts: Facts, budget: Budget) -> GaussianMechanism:
        """The question with the least noise that fits the budget; sees public facts only."""
        question = evaluation_query(self.model.head, self.model.features, facts.bound)
        return mechanism_for(question, budget)

    @chunks.plain_floats()  # as for `fit`
    def evaluate(
        self,
        test: PrivateEmbeddings,
        *,
        budget: Budget,
        ledger: Ledger | None = None,
        noise: NoiseSource | None = None,
        new_data_set: bool = False,
    ) -> ChargedEvaluation:
        """Plan, charge the ledger, ask.

        Args:
            test: labelled private rows of the model's encoder and classes.
            budget: what this evaluation may cost them.
            ledger: where it is charged; the user's default ledger file if not given.
            noise: `SecureNoise()` if not given.
            new_data_set: the owner's word that rows on record under another name are other people's here.

        Raises:
            BudgetExceeded: the data set's budget in the ledger does not cover it; no row was read.
            RowsOnRecord: the ledger knows these rows under another name. For the owner's eyes only.
            BudgetError: the budget promises nothing, or allows no noise of this kind.
        """
        ledger, noise = with_defaults(budget, ledger, noise)
        self.require_match(test)
        warn_if_weak(budget, test.facts.declared_units, stacklevel=3)  # past `plain_floats`
        step = self.plan(test.facts, budget)
        # A head that cannot be asked fails here, about no row.
        none, nobody = np.zeros((0, self.model.dimension)), np.zeros(0, dtype=np.int64)
        mechanism.exact_answer(step.query, none, nobody, None if test.people is None else nobody)
        with charge_run(ledger, test, (step.event,), "evaluation", new_data_set) as receipt:
            return run_evaluation(step, test.rows, test, budget, noise, receipt.head)

    def require_match(self, test: PrivateEmbeddings) -> None:
        """Raise, before anything is charged, for rows that this model cannot be asked about."""
        if not isinstance(test, PrivateEmbeddings):
            raise ArgumentError(
                f"test must be PrivateEmbeddings; got {type(test).__name__}. Rows that are nobody's secret "
                "need no budget: use evaluate(model, x, y)."
            )
        wanted, facts = self.model.row_facts, test.facts
        require_same_encoder(wanted.encoder, facts.encoder, names=("The model", "test rows"))
        if (facts.shape, facts.classes) != (wanted.shape, wanted.classes):
            what = "dimension" if facts.shape != wanted.shape else "list of classes, in its order"
            raise Incompatible(
                f"Test rows must have the model's {what}; these have another. Encode them as its rows were, "
                "and declare its classes: PrivateEmbeddings(x, y, classes=model.classes)."
            )


def evaluation_query(head: Head, features: feature_map.FittedFeatures, bound: Bound) -> EvaluationCounts:
    """The evaluation query for a head behind this map."""
    arrays: JsonObject = score_arrays(head)
    arrays |= {"temperature": head.temperature, "directions": isinstance(head, CosineHead)}
    return EvaluationCounts(features, **arrays, bound=bound)


def planned_query(classes: Sequence[str | int], bound: Bound) -> EvaluationCounts:
    """The same question of a head that is not there yet: what it costs is known by the classes alone."""
    blank = LinearHead(np.zeros((len(classes), 1)), np.zeros(len(classes)))
    return evaluation_query(blank, feature_map.UnitNorm().fit(1, None), bound)


def mechanism_for(question: EvaluationCounts, budget: Budget) -> GaussianMechanism:
    """The question with the least noise that fits the budget."""
    asked = partial(GaussianMechanism, question, relation=budget.relation)
    return asked(noise_multiplier_for(budget, lambda z: [asked(z).event]))


def run_evaluation(
    step: GaussianMechanism, rows: AnyArray, test: PrivateData, budget: Budget, noise: NoiseSource, head: str
) -> ChargedEvaluation:
    """Ask, and wrap the answer; the only reader of the test rows."""
    answer: Floats = step.release(rows, test.labels, test.people, noise=noise)
    classes, bound, events = test.facts.classes, test.facts.bound, (step.event,)
    counts = NoisyCounts.of_answer(answer, EvaluationLayout(len(classes)), step.scale, bound)
    promise = guarantee_of(events, budget.delta, ASSUMPTIONS, relation=budget.relation)
    created = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    made = partial(ChargedEvaluation, seeded=noise.seeded, created=created, ledger_head=head)
    return made(classes, counts, events, promise)


_ROUNDING = 1e-9  # what another build of the same arithmetic may differ by


def is_planned_step(told: ChargedEvaluation) -> bool:
    """Whether step, noise and cuts are those of `EvaluationCounts` with that much noise, and no others."""
    (event,), counts = told.events, told.counts
    if not isinstance(event, GaussianEvent):
        return False
    # What it costs is known by classes and bound alone: a head of zeros stands for the model's.
    query = planned_query(told.classes, counts.bound)
    step = GaussianMechanism(query, event.noise_multiplier, event.relation)
    paid = replace(event, numeric_epsilon=step.event.numeric_epsilon, sensitivity=step.event.sensitivity)
    wanted = NoisyCounts.of_answer(np.zeros(query.shape), query.layout, step.scale, counts.bound)
    pairs = [(event.sensitivity, step.event.sensitivity)]
    pairs += [(counts.noise.get(name, math.nan), amount) for name, amount in wanted.noise.items()]
    return (
        paid == step.event
        and event.numeric_epsilon >= step.event.numeric_epsilon * (1 - _ROUNDING)
        and all(math.isclose(*pair, rel_tol=_ROUNDING) for pair in pairs)
    )
