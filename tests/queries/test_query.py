import numpy as np
import pytest

from dptransfer.privacy import Relation

from .neighbours import EMPTY
from .test_class_sums import QUERIES
from .test_recentred_sums import query as recentred
from .test_similarity import scores_query
from .test_softmax_gradient import query as gradient

L2_QUERIES = {**QUERIES, "recentred sums": recentred(), "softmax gradient": gradient()}


@pytest.mark.parametrize("name", L2_QUERIES)
def test_an_l2_query_answers_in_integers_of_its_shape_and_names_its_sensitivity(name):
    query = L2_QUERIES[name]
    for data in (EMPTY, (np.eye(3), np.array([0, 1, 1]))):
        answer = query(*data)
        assert answer.dtype == np.int64
        assert answer.shape == query.shape
    assert query.grid == 2**30
    assert query.label
    assert query.l2_sensitivity(Relation.REPLACE_ONE) > 0


def test_a_score_query_answers_in_integers_one_row_per_candidate():
    query = scores_query()
    scores = query(np.eye(3), np.array([0, 1, 1]))
    assert scores.dtype == np.int64
    assert scores.shape == (len(query.candidates), query.classes)
    assert isinstance(query.score_range, int)
