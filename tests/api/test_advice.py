from pathlib import Path

import pytest

from dptransfer.accounting import mu_for
from dptransfer.api.advice import ADVICE, DARK, FEW, Finding

PAGE = Path(__file__).parents[2] / "docs" / "check.md"


@pytest.mark.parametrize("key", ADVICE)
def test_every_finding_is_on_the_page_about_the_command(key):
    assert ADVICE[key].title in PAGE.read_text()


def test_a_finding_knows_its_advice():
    assert Finding("zeros", "private", 1).advice is ADVICE["zeros"]
    for advice in ADVICE.values():
        assert all(words.rstrip("'").endswith((".", "dog")) for words in (advice.why, advice.remedy))


def test_the_constants_are_those_of_their_derivation():
    assert round(64**0.5 / mu_for(1.0, 1e-5)) == FEW
    assert 4095 // 257 < DARK
