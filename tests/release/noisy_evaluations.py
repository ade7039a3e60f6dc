"""Charged evaluations without a data set: counts drawn from a known truth, with the noise of a budget."""

import numpy as np

from dptransfer.accounting import guarantee_of
from dptransfer.exact.evaluation_layout import (
    CHANCE_EDGES,
    CONFIDENCE_KNOTS,
    TEMPERATURES,
    EvaluationLayout,
)
from dptransfer.methods.private_evaluation import mechanism_for, planned_query
from dptransfer.privacy import EACH_ROW, Budget, Relation
from dptransfer.release.charged_evaluation import ChargedEvaluation, NoisyCounts

BUDGET = Budget(epsilon=0.2, delta=1e-5)


def event(classes, budget=BUDGET):
    """The step of an evaluation of examples at this budget."""
    question = planned_query(range(classes), EACH_ROW)
    return mechanism_for(question, budget).event


def noisy(confusion, reliability, step, rng, bound=EACH_ROW):
    """Noisy counts of these exact ones."""
    layout = EvaluationLayout(len(confusion))
    right = np.diag(confusion)
    exact = {
        "answers": [right.sum(), confusion.sum() - right.sum()],
        "by_class": np.column_stack([right, confusion.sum(axis=1) - right]),
        "by_prediction": np.column_stack([right, confusion.sum(axis=0) - right]),
        "confusion": confusion,
        "reliability": reliability,
        "chances": np.zeros(len(CHANCE_EDGES) + 1),
        "confidences": np.zeros(len(TEMPERATURES)),
    }
    scale = step.noise_multiplier * step.sensitivity
    answer = rng.normal(scale=scale, size=layout.size) if rng is not None else np.zeros(layout.size)
    for name, block in layout.blocks.items():
        answer[block.start : block.stop] += np.ravel(exact[name]) * block.weight / 2**30
    return NoisyCounts.of_answer(answer, layout, scale, bound)


def truth(classes, accuracy, spread=0.15):
    """Chances of (class, prediction), and of a knot of confidence if right and if wrong."""
    recall = np.clip(accuracy + np.linspace(-spread, spread, classes), 0.02, 0.98)
    joint = np.repeat(((1 - recall) / (classes - 1))[:, None], classes, axis=1)
    np.fill_diagonal(joint, recall)
    knots = np.array(CONFIDENCE_KNOTS)
    right, wrong = np.exp(3 * knots), np.exp(1.5 * knots)
    return joint / classes, right / right.sum(), wrong / wrong.sum()


def drawn(size, joint, right, wrong, rng):
    """Exact counts of a sample: confusion matrix and reliability."""
    confusion = rng.multinomial(size, joint.ravel()).reshape(joint.shape)
    hits = int(np.trace(confusion))
    return confusion, np.column_stack([rng.multinomial(hits, right), rng.multinomial(size - hits, wrong)])


def evaluation(classes=("cat", "dog", "eel"), size=4000, accuracy=0.8, seed=0, budget=BUDGET, **more):
    """A charged evaluation of a classifier with that accuracy."""
    rng, step = np.random.default_rng(seed), event(len(classes), budget)
    counts = noisy(*drawn(size, *truth(len(classes), accuracy), rng), step, rng)
    promise = guarantee_of((step,), budget.delta, relation=Relation(budget.relation))
    return ChargedEvaluation(tuple(classes), counts, (step,), promise, **more)
