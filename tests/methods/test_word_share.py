import numpy as np
import pytest

from dptransfer.methods.heads.words import word_share, words_may_pay


def test_words_that_the_encoder_is_not_sure_of_get_nothing():
    assert word_share(0.39, 2.0, 1000, named=0.0) == 0
    assert word_share(0.41, 2.0, 1000, named=0.0) == 1
    assert word_share(0.29, 2.0, 1000, named=1.0) == 0
    assert word_share(0.31, 2.0, 1000, named=1.0) == 1


@pytest.mark.parametrize("words", [2, 1000, 21843])
def test_more_signal_never_gives_words_more(words):
    shares = [word_share(0.5, signal, words, named=0.5) for signal in np.geomspace(0.1, 100, 50)]
    assert shares == sorted(shares, reverse=True)
    assert shares[0] == 1
    assert shares[-1] == 0


def test_a_word_stands_out_of_the_noise_of_all_nine_times_out_of_ten_where_axes_begin():
    """The claim behind the border, in 2,000 draws; a tenth of them is 200, give or take 13."""
    words, confidence = 1000, 0.5
    border = next(
        signal for signal in np.linspace(1, 20, 2000) if word_share(confidence, signal, words, 1.0) < 1
    )
    rng = np.random.default_rng(0)
    largest = rng.normal(size=(2000, words)).max(axis=1)
    found = np.mean(border * confidence + rng.normal(size=2000) > largest)
    assert 0.9 - 0.035 < found < 1


@pytest.mark.parametrize("confidence", [-3.0, 0.0, 1.7, float("nan")])
def test_noise_may_make_any_number_of_the_confidence(confidence):
    assert (
        word_share(confidence, 5.0, 1000, named=0.5) in (0.0, 1.0)
        or 0.05 <= word_share(confidence, 5.0, 1000, named=0.5) <= 0.75
    )
    assert word_share(0.5, -5.0, 1000, named=0.5) == 1


@pytest.mark.parametrize("named", [0.0, 1.0])
def test_confidence_need_not_be_measured_where_none_would_give_words_a_share(named):
    levels = np.linspace(0, 1, 101)
    for signal in np.geomspace(1, 100, 40):
        could = any(word_share(level, signal, 1000, named) > 0 for level in levels)
        assert words_may_pay(signal, 1000, named) == could
