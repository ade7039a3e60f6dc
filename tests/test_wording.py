"""Names and wording: what stands for two things, or says too little, may only become rarer."""

import ast

import pytest

import wording


def test_counts_only_fall_and_what_has_fallen_is_recorded():
    """One that falls by more than five is recorded: otherwise it could rise again."""
    found = {name: len(count()) for name, count in wording.COUNTED.items()}
    most = wording.recorded()
    risen = {name: count for name, count in found.items() if count > most[name]}
    assert risen == {}, "see them with: python tests/wording.py --list"
    fallen = {name: count for name, count in found.items() if count < most[name] - 5}
    assert fallen == {}, "run: python tests/wording.py"


def test_the_record_has_every_count_and_no_other():
    assert wording.recorded().keys() == wording.COUNTED.keys()


@pytest.mark.parametrize(
    "name", ["charged", "told", "kept", "beforehand", "jointly", "held", "judging", "elsewhere", "Handed"]
)
def test_bare_participles_and_adverbs_are_counted(name):
    assert wording.is_bare(name)


@pytest.mark.parametrize(
    "name",
    ["charge", "class_sums", "is_charged", "told_once", "embedding", "sampling", "seed", "split", "family"],
)
def test_verbs_nouns_and_words_of_the_field_are_not(name):
    assert not wording.is_bare(name)


def test_exported_names_are_those_of_functions_classes_and_methods_without_an_underscore():
    code = "def charged():\n    def told(): ...\n"
    code += "class Kept:\n    def held(self): ...\n    def _seen(self): ...\n"
    found = list(wording.exported(ast.parse(code + "def _known(): ...\nshown = 1\n")))
    assert found == ["charged", "Kept", "held"]


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        ("'one'", 1),
        ("'a rule of four words'", 4),
        (r"r'must be \d+ and\s.*not'", 4),
        ("f'so much {x} for that'", 4),
        ("name", 0),
        ("re.escape('it is what it is')", 0),
        ("'to' + 'gether'", 2),
    ],
)
def test_words_of_a_pattern_are_counted(pattern, words):
    assert wording.words_of(ast.parse(pattern, mode="eval").body) == words


def test_names_used_twice_are_found():
    assert wording.repeated(["a.py", "b.py", "a.py"]) == ["a.py"]
    assert wording.file_names()
    assert "__init__.py" not in wording.file_names()
