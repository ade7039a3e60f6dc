"""Released counts of classifiers whose truth is known: exact counts in every block, and noise."""

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
from dptransfer.privacy import EACH_ROW, GaussianEvent, Relation
from dptransfer.release.charged_evaluation import ChargedEvaluation, NoisyCounts

NOISE = 1 / mu_for(0.2, 1e-5)
"""Standard deviation of the noise of an answer of sensitivity 1 at ε = 0.2, δ = 1e-5."""


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


def counts_of_cells(cells, *, noise=NOISE, rng=None, bound=EACH_ROW):
    """Counts of two classes with these numbers of examples in the cells of `chances`, right ones last."""
    layout, right, wrong = EvaluationLayout(2), cells[-1], cells[:-1].sum()
    whole = {
        "answers": [right, wrong],
        "by_class": [right, wrong, 0, 0],
        "by_prediction": [right, 0, 0, wrong],
        "confusion": [right, wrong, 0, 0],
        "reliability": [*[0] * (2 * len(CONFIDENCE_KNOTS) - 2), right, wrong],
        "chances": cells,
        "confidences": [right + wrong] * len(TEMPERATURES),
    }
    weights = {name: layout.blocks[name].weight / GRID for name in layout.blocks}
    answer = np.concatenate([np.asarray(whole[name], dtype=float) * weights[name] for name in layout.blocks])
    if rng is not None:
        answer += rng.normal(size=answer.shape) * noise
    return NoisyCounts.of_answer(answer, layout, noise, bound)


def with_counts(model, counts):
    """The model with a charged evaluation of these counts."""
    event = GaussianEvent(NOISE, Relation.ADD_REMOVE, unit=counts.bound.unit, label="test counts")
    promise = guarantee_of((event,), 1e-5)
    return replace(model, charged=ChargedEvaluation(model.classes, counts, (event,), promise))
