import secrets
from fractions import Fraction

import numpy as np
import pytest

from dptransfer.noise import noise_source as sampler
from dptransfer.noise.noise_source import exact_poisson_sample


@pytest.fixture
def given_words(monkeypatch):
    """Lets a test say which words the stream holds."""

    def give(words):
        remaining = list(words)

        class Given:
            def words(self, count):
                taken, remaining[:] = remaining[:count], remaining[count:]
                return np.array(taken, dtype=np.uint64)

        monkeypatch.setattr(sampler, "WordStream", Given)

    return give


def chance_of_heads(rate, given_words, monkeypatch):
    """The sum over all outcomes of the coin: the words below the turning point, and a share of that one."""
    turning = int(Fraction(rate) * 2**64)
    near = [word for word in (0, turning - 1, turning, turning + 1, 2**64 - 1) if 0 <= word < 2**64]
    asked = []
    verdicts = {}
    for further in ("first", "last"):
        monkeypatch.setattr(
            secrets, "randbelow", lambda n, end=further: asked.append(n) or (0 if end == "first" else n - 1)
        )
        given_words(near)
        taken = exact_poisson_sample(len(near), rate)
        verdicts[further] = {word: place in taken for place, word in enumerate(near)}
    sure = {word for word in near if verdicts["first"][word] and verdicts["last"][word]}
    assert sure == {word for word in near if word < turning}
    if not asked:
        assert not verdicts["first"][turning]
        return Fraction(turning, 2**64)
    among, heads = asked[0], 0
    for draw in sorted({0, 1, 2, 3, among // 3, among // 2, among - 1}):
        monkeypatch.setattr(secrets, "randbelow", lambda n, draw=draw: draw)
        given_words([turning])
        heads = max(heads, draw + 1) if len(exact_poisson_sample(1, rate)) else heads
    return Fraction(turning, 2**64) + Fraction(heads, among * 2**64)


@pytest.mark.parametrize(
    "rate", [0.5, 0.1, 1 / 3, 1 - 2.0**-53, 2.0**-11, 2.0**-64, 2.0**-65, 3 * 2.0**-70, 2.0**-1074]
)
def test_heads_have_exactly_the_probability_of_the_float(rate, given_words, monkeypatch):
    assert chance_of_heads(rate, given_words, monkeypatch) == Fraction(rate)


def test_a_tie_is_broken_by_a_coin_of_what_is_left(given_words, monkeypatch):
    """3·2⁻⁷⁰ is 3/64 of the smallest word: a word of 0 is heads three times in 64."""
    kept = []
    for draw in range(64):
        monkeypatch.setattr(secrets, "randbelow", lambda n, draw=draw: draw if n == 64 else None)
        given_words([0])
        kept.append(len(exact_poisson_sample(1, 3 * 2.0**-70)))
    assert kept == [1, 1, 1] + [0] * 61


def test_positions_are_right_across_chunks(given_words, monkeypatch):
    monkeypatch.setattr(sampler, "_CHUNK", 4)
    given_words([0, 2**63, 2**63 - 1, 2**64 - 1, 5, 2**64 - 1, 2**63, 0, 0, 2**63])
    assert exact_poisson_sample(10, 0.5).tolist() == [0, 2, 4, 7, 8]
