import pytest

from dptransfer.methods import METHODS, PrivateTuning
from dptransfer.release.card_words import words_for

UNKNOWN = words_for("brand-new")
WITHOUT_PRIVATE_ROWS = {"only-public", "language"}


@pytest.mark.parametrize("name", sorted({*METHODS, PrivateTuning.name} - {"auto"}))
def test_every_method_that_can_run_has_words_and_a_reference(name):
    words = words_for(name)
    assert words.reference != UNKNOWN.reference
    assert words.summary.count(". ") <= 2  # short sentences, two or three
    assert words.summary.endswith(".")
    assert words.reference.endswith(".")
    assert ("No private row was used" in words.summary) == (name in WITHOUT_PRIVATE_ROWS)


def test_a_method_the_card_has_no_words_for_is_only_named():
    assert "'brand-new'" in UNKNOWN.summary
    assert words_for("auto").reference == UNKNOWN.reference  # a release names the method that was chosen
    assert words_for("noisy-gradient").reference == UNKNOWN.reference
