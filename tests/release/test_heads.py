"""Heads against their formulas, written out in plain loops; and on their way through a release."""

import math

import numpy as np
import pytest

from dptransfer.errors import ArgumentError
from dptransfer.release.heads import (
    HEADS,
    AverageHead,
    CosineHead,
    EuclideanHead,
    LinearHead,
    MeanCosineHead,
    QuadraticHead,
    describe_head,
    head_arrays,
    read_head,
    unit_rows,
)

CLASSES, WIDTH, CHOSEN = 3, 5, 4


def drawn(*shape, seed=0):
    return np.random.default_rng([seed, *shape]).normal(size=shape)


MADE = {
    "cosine": CosineHead(drawn(CLASSES, WIDTH), temperature=0.1),
    "mean-cosine": MeanCosineHead(drawn(CLASSES, CHOSEN, WIDTH), temperature=0.2),
    "euclidean": EuclideanHead(drawn(CLASSES, WIDTH), temperature=0.3),
    "linear": LinearHead(drawn(CLASSES, WIDTH), drawn(CLASSES), temperature=0.4),
    "quadratic": QuadraticHead(
        drawn(CLASSES, WIDTH), drawn(CLASSES), np.abs(drawn(CLASSES, WIDTH, seed=1)), temperature=0.5
    ),
    "average": AverageHead(
        drawn(CLASSES, WIDTH), drawn(CLASSES), drawn(CLASSES, WIDTH, seed=1), temperature=0.6
    ),
}
FORMS = [head for kind, head in MADE.items() if kind != "average"]
EACH = pytest.mark.parametrize("head", MADE.values(), ids=MADE)
ROWS = drawn(7, WIDTH, seed=2)


def dot(a, b):
    return math.fsum(float(x) * float(y) for x, y in zip(a, b, strict=True))


def cosine(a, b):
    lengths = math.sqrt(dot(a, a)) * math.sqrt(dot(b, b))
    return dot(a, b) / lengths if lengths else 0.0


def score(head, row, place):
    """One score, by the definition and nothing else."""
    match head:
        case MeanCosineHead():
            return math.fsum(cosine(row, one) for one in head.prototypes[place]) / CHOSEN
        case CosineHead():
            return cosine(row, head.prototypes[place])
        case EuclideanHead():
            away = [float(x) - float(c) for x, c in zip(row, head.centres[place], strict=True)]
            return -dot(away, away) / 2 + dot(row, row) / 2  # less what all classes have in common
        case LinearHead():
            return float(head.offset[place]) + dot(head.weights[place], row)
        case QuadraticHead():
            squares = [float(x) ** 2 for x in row]
            bend = dot(head.precision[place], squares) / 2
            return float(head.offset[place]) + dot(head.linear[place], row) - bend
        case AverageHead():
            own = [float(b) + dot(w, row) for w, b in zip(head.weights, head.offset, strict=True)]
            beside = [dot(w, row) for w in head.prior]
            return math.log(sum(math.exp(z[place]) / sum(map(math.exp, z)) for z in (own, beside)) / 2)


def test_every_kind_of_head_is_tested_here():
    assert {kind: type(head) for kind, head in MADE.items()} == HEADS


@EACH
def test_scores_are_those_of_the_formula(head):
    found = head.scores(ROWS)
    assert found.shape == (len(ROWS), CLASSES)
    assert found.dtype == np.float64
    slow = np.array([[score(head, row, place) for place in range(CLASSES)] for row in ROWS])
    np.testing.assert_allclose(found, slow, rtol=1e-12, atol=1e-12)
    other = np.array([[score(head, row, place) for place in range(CLASSES)] for row in ROWS + 0.01])
    assert np.abs(found - other).max() > 1e-4  # the comparison is fine enough to fail


@EACH
def test_a_row_of_zeros_has_finite_scores(head):
    """An unreadable picture is such a row; nothing may divide by its length."""
    assert np.isfinite(head.scores(np.zeros((1, WIDTH)))).all()


@pytest.mark.parametrize("head", FORMS, ids=lambda head: head.kind)
def test_the_quadratic_form_orders_classes_of_unit_rows_as_the_head_does(head):
    """The head's scores less the form's are the same for every class of a row."""
    rows = unit_rows(ROWS)
    linear, offset, precision = head.form
    form = rows @ linear.T if offset is None else offset + rows @ linear.T
    if precision is not None:
        form = form - 0.5 * (rows * rows) @ precision.T
    apart = head.scores(rows) - form
    np.testing.assert_allclose(apart, apart[:, :1] @ np.ones((1, CLASSES)), atol=1e-12)
    assert (form.argmax(axis=1) == head.scores(rows).argmax(axis=1)).all()
    assert (precision is None) == (head.kind != "quadratic")


def test_probabilities_of_a_mean_of_softmaxes_add_up_to_one_and_stay_finite_when_both_are_sure():
    chances = np.exp(MADE["average"].scores(ROWS))
    assert np.allclose(chances.sum(axis=1), 1)
    sure = AverageHead(1e6 * drawn(CLASSES, WIDTH), np.zeros(CLASSES), 1e6 * drawn(CLASSES, WIDTH, seed=1))
    assert np.isfinite(sure.scores(ROWS)).all()


@EACH
def test_a_head_survives_the_way_through_a_release(head):
    again = read_head(head_arrays(head), describe_head(head))
    assert type(again) is type(head)
    assert again.temperature == head.temperature
    assert head_arrays(again).keys() == head_arrays(head).keys()
    for name, array in head_arrays(head).items():
        assert (head_arrays(again)[name] == array).all()
    assert (again.scores(ROWS) == head.scores(ROWS)).all()


@EACH
def test_a_head_of_missing_or_unknown_arrays_is_refused(head):
    arrays, settings = head_arrays(head), describe_head(head)
    for name in arrays:
        with pytest.raises(ArgumentError, match=head.kind):
            read_head({one: array for one, array in arrays.items() if one != name}, settings)
    with pytest.raises(ArgumentError, match="restored"):
        read_head({**arrays, "more": np.zeros(1)}, settings)
    with pytest.raises(ArgumentError, match="restored"):
        read_head(arrays, {"kind": head.kind})
