"""What queries say of their answers: shapes, noise in other units, blocks that many classes leave out."""

import numpy as np
import pytest

from dptransfer.exact.evaluation_layout import MOST_CONFUSED
from dptransfer.privacy import Unit
from dptransfer.queries import EvaluationCounts, LargestVotes, SecondMoments
from dptransfer.queries.second_moments import OfAll
from dptransfer.testing.query_rules import check_query

from .neighbours import CLASSES, MAPS, WIDTH
from .test_people import QUERIES, asked


def test_favourites_have_one_count_a_question():
    assert LargestVotes(4, 3, unit=Unit.ROW).shape == (4,)


def test_a_ridge_is_measured_in_the_norm_of_a_matrix_of_noise():
    moments = SecondMoments(MAPS["unit norm"], OfAll())
    assert moments.noise_norm(3.0) == pytest.approx(2 * moments.entry_scale(3.0) * WIDTH**0.5)
    rng = np.random.default_rng(0)
    wide = 400
    noise = rng.normal(size=(wide, wide))
    symmetric = (noise + noise.T) / 2**0.5  # off the diagonal of variance 1
    assert np.linalg.norm(symmetric, 2) == pytest.approx(2 * wide**0.5, rel=0.05)


@pytest.mark.parametrize("classes", [MOST_CONFUSED, MOST_CONFUSED + 1])
def test_more_classes_have_no_confusion_matrix_and_the_other_counts(classes):
    linear = np.random.default_rng(0).normal(size=(classes, WIDTH))
    asked = EvaluationCounts(MAPS["unit norm"], linear, np.zeros(classes), temperature=0.3)
    rows, labels = np.random.default_rng(1).normal(size=(30, WIDTH)), np.arange(30)
    answer = asked(rows, labels)
    blocks = asked.layout.blocks
    assert ("confusion" in blocks) == (classes <= MOST_CONFUSED)
    first = blocks["answers"]
    counts = answer[first.start : first.start + 2] / first.weight
    assert counts.sum() == len(rows)


@pytest.mark.parametrize("name", QUERIES)
def test_every_query_says_what_it_is_and_answers_in_integers(name):
    """Its sensitivity is tried by the tests of its file, on more neighbours than these."""
    check_query(asked(name), width=WIDTH, classes=CLASSES, skip=["neighbours stay within the sensitivity"])
