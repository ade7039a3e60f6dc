"""Released counts of classifiers whose truth is known, and charged evaluations, without a data set."""

from dataclasses import replace

import numpy as np

from dptransfer.accounting import guarantee_of, mu_for
from dptransfer.exact.evaluation_layout import (
    CHANCE_EDGES,
    CONFIDENCE_KNOTS,
    GRID,
    TEMPERATURES,
    EvaluationLayout,
)
from dptransfer.methods.private_evaluation import mechanism_for, planned_query
from dptransfer.privacy import EACH_ROW, Budget, GaussianEvent, Relation
from dptransfer.release.charged_evaluation import ChargedEvaluation, NoisyCounts

BUDGET = Budget(epsilon=0.2, delta=1e-5)
NOISE = 1 / mu_for(0.2, 1e-5)
"""Standard deviation of the noise of an answer of sensitivity 1 at this budget."""


def event(classes, budget=BUDGET):
    """The step of an evaluation of examples at this budget."""
    question = planned_query(range(classes), EACH_ROW)
    return mechanism_for(question, budget).event


def with_noise(confusion, reliability, noise, rng, bound=EACH_ROW, chances=0.0, confidences=0.0):
    """Noisy counts of these exact ones, with noise of this standard deviation; exact ones without `rng`."""
    layout, right = EvaluationLayout(len(confusion)), np.diag(confusion)
    exact = {
        "answers": [right.sum(), confusion.sum() - right.sum()],
        "by_class": np.column_stack([right, confusion.sum(axis=1) - right]),
        "by_prediction": np.column_stack([right, confusion.sum(axis=0) - right]),
        "confusion": confusion,
        "reliability": reliability,
        "chances": chances,
        "confidences": confidences,
    }
    answer = np.zeros(layout.size) if rng is None else rng.normal(scale=noise, size=layout.size)
    for name, block in layout.blocks.items():
        cells = np.broadcast_to(exact[name], block.shape).ravel()
        answer[block.start : block.stop] += cells * block.weight / GRID
    return NoisyCounts.of_answer(answer, layout, noise, bound)


def noisy(confusion, reliability, step, rng, bound=EACH_ROW):
    """Noisy counts of these exact ones, by this step."""
    return with_noise(confusion, reliability, step.noise_multiplier * step.sensitivity, rng, bound)


def counts_of_cells(cells, *, noise=NOISE, rng=None, bound=EACH_ROW):
    """Counts of two classes with these numbers of examples in the cells of `chances`, right ones last."""
    right, wrong = cells[-1], cells[:-1].sum()
    reliability = np.zeros((len(CONFIDENCE_KNOTS), 2))
    reliability[-1] = right, wrong
    confusion = np.array([[right, wrong], [0, 0]])
    return with_noise(confusion, reliability, noise, rng, bound, cells, right + wrong)


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


def softmax(logits):
    weights = np.exp(logits - logits.max(axis=1, keepdims=True))
    return weights / weights.sum(axis=1, keepdims=True)


def answer_of(logits, labels):
    """What `EvaluationCounts` answers for rows of these logits, in plain arithmetic."""
    classes = logits.shape[1]
    layout = EvaluationLayout(classes)
    answer = np.zeros(layout.size)
    chances, chosen = softmax(logits), logits.argmax(axis=1)
    wrong = (chosen != labels).astype(int)

    def add(name, cells, amounts=1.0):
        block = layout.blocks[name]
        np.add.at(answer, block.start + cells, amounts * block.weight / GRID)

    add("answers", wrong)
    add("by_class", 2 * labels + wrong)
    add("by_prediction", 2 * chosen + wrong)
    if "confusion" in layout.blocks:
        add("confusion", classes * labels + chosen)
    own = np.where(wrong, chances[np.arange(len(labels)), labels], 1.0)
    add("chances", np.searchsorted(CHANCE_EDGES, own, side="right"))
    place = chances.max(axis=1) * (len(CONFIDENCE_KNOTS) - 1)
    knot = np.minimum(place.astype(int), len(CONFIDENCE_KNOTS) - 2)
    add("reliability", 2 * knot + wrong, 1 - (place - knot))
    add("reliability", 2 * knot + 2 + wrong, place - knot)
    for number, factor in enumerate(TEMPERATURES):
        add("confidences", np.full(len(labels), number), softmax(logits / factor).max(axis=1))
    return answer, layout


def counts_of(logits, labels, *, noise=NOISE, seed=0, bound=EACH_ROW):
    answer, layout = answer_of(logits, labels)
    drawn = np.random.default_rng(seed).normal(size=answer.shape) * noise
    return NoisyCounts.of_answer(answer + drawn, layout, max(noise, 1e-9), bound)


def with_counts(model, counts):
    """The model with a charged evaluation of these counts."""
    event = GaussianEvent(NOISE, Relation.ADD_REMOVE, unit=counts.bound.unit, label="test counts")
    promise = guarantee_of((event,), 1e-5)
    return replace(model, charged=ChargedEvaluation(model.classes, counts, (event,), promise))
