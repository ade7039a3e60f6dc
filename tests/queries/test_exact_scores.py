from types import SimpleNamespace

import numpy as np
import pytest

from dptransfer.exact.feature_map import UnitNorm
from dptransfer.exact.lattice import unit_lattice
from dptransfer.methods.private_evaluation import evaluation_query
from dptransfer.privacy import EACH_ROW
from dptransfer.queries import CorrectCount
from dptransfer.queries.evaluation_counts import exact_scores
from dptransfer.release.heads import AverageHead, LinearHead

NORM, WIDTH, CLASSES = 2**16, 6, 4
RNG = np.random.default_rng(0)
ROWS = RNG.normal(size=(400, WIDTH))
UNIT = ROWS / np.linalg.norm(ROWS, axis=1, keepdims=True)
OWN, PRIOR = RNG.normal(size=(2, CLASSES, WIDTH)) * 3


def head(prior):
    return SimpleNamespace(linear=OWN, offset=np.zeros(CLASSES), precision=None, prior=prior)


@pytest.mark.parametrize("prior", [None, PRIOR])
def test_scores_in_their_unit_are_those_of_the_released_head_up_to_what_classes_share(prior):
    scored, unit = exact_scores(head(prior), NORM, 2.0**32)
    found = scored(unit_lattice(ROWS, NORM).astype(np.float64)).T * unit
    zero = np.zeros(CLASSES)
    released = LinearHead(OWN, zero) if prior is None else AverageHead(OWN, zero, prior)
    wanted = released.scores(UNIT)
    assert np.abs((found - found[:, :1]) - (wanted - wanted[:, :1])).max() < 2e-3
    assert (found.argmax(axis=1) == wanted.argmax(axis=1)).mean() > 0.99


def test_counts_and_histograms_are_of_the_mean_and_not_of_one_head():
    labels = AverageHead(OWN, np.zeros(CLASSES), PRIOR).scores(UNIT).argmax(axis=1)
    features = UnitNorm().fit(WIDTH, None)
    both = CorrectCount(features, OWN, np.zeros(CLASSES), prior=PRIOR)
    alone = CorrectCount(features, OWN, np.zeros(CLASSES))
    assert both(ROWS, labels)[0] / both.grid >= 0.99 * len(ROWS)
    assert alone(ROWS, labels)[0] / alone.grid < 0.9 * len(ROWS)
    asked = evaluation_query(AverageHead(OWN, np.zeros(CLASSES), PRIOR), features, EACH_ROW)
    answers = asked.layout.blocks["answers"]
    right = asked(ROWS, labels)[answers.start] / answers.weight
    assert right >= 0.99 * len(ROWS)


def test_a_rows_scores_are_the_same_in_any_batch():
    rows = unit_lattice(ROWS, NORM).astype(np.float64)
    scored, _ = exact_scores(head(PRIOR), NORM, 2.0**32)
    whole = scored(rows)
    assert all((scored(rows[i : i + 1])[:, 0] == whole[:, i]).all() for i in range(0, 400, 13))
