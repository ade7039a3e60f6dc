from pathlib import Path

from dptransfer.accounting import mu_for
from dptransfer.api.findings import DARK, FEW, Finding, advice

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "check.md"


def test_every_finding_is_on_the_page_about_the_command_and_says_what_to_do():
    page = PAGE.read_text()
    for key, said in advice().items():
        assert said.title in page
        assert said.why.endswith(".")
        assert said.remedy
        assert Finding(key, "private", 1).advice is said


def test_the_constants_are_those_of_their_derivation():
    assert round(64**0.5 / mu_for(1.0, 1e-5)) == FEW
    assert 4095 // 257 < DARK
