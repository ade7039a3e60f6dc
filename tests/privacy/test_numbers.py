"""Numbers in sentences: never below the truth, and written as people write them."""

import numpy as np
import pytest

from dptransfer.privacy import number, plain_exponents, rounded_up, typeset


def test_reported_numbers_are_never_rounded_down():
    rng = np.random.default_rng(0)
    for value in np.exp(rng.normal(scale=5, size=300)).tolist():
        for digits in (2, 3, 6):
            assert value <= float(rounded_up(value, digits)) <= value * (1 + 10.0 ** (1 - digits))
    assert rounded_up(0.0) == "0"
    assert rounded_up(float("inf")) == "unbounded"


@pytest.mark.parametrize(
    ("value", "said"),
    [(1e-5, "1e-5"), (1.5e-12, "1.5e-12"), (1e-100, "1e-100"), (1e7, "1e7"), (1e20, "1e20"), (0.1, "0.1")],
)
def test_exponents_have_no_leading_zeros_and_no_plus(value, said):
    assert number(value) == rounded_up(value) == said
    assert float(said) == value


def test_only_numbers_are_rewritten():
    words = "head 3e05ab, e-05 and 'dose-007'"
    assert plain_exponents(words) == words


@pytest.mark.parametrize(
    ("written", "printed"),
    [
        ("δ = 1e-5.", "δ = 10⁻⁵."),
        ("1e-05, 2.5e+20", "10⁻⁵, 2.5·10²⁰"),
        ("head 3e05ab, x1e5, 1.2e5.3 and 'dose-007'", "head 3e05ab, x1e5, 1.2e5.3 and 'dose-007'"),
    ],
)
def test_powers_of_ten_are_printed_and_nothing_else_is(written, printed):
    assert typeset(written) == printed
