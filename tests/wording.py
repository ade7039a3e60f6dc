"""Count what docs/reference/glossary.md asks us to avoid, and record the counts in wording.toml.

`python tests/wording.py` records them.

The counts may only fall: file names and class names that stand for two things, exported names that are bare
participles or adverbs, and assertions that freeze the wording of a message. Record again after a merge, and
look at the difference as you would at code.
"""

import ast
import re
import sys
import tomllib
from collections import Counter
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
RECORD = ROOT / "tests" / "wording.toml"
SOURCES = ("src/dptransfer",)
TESTS = ("tests", "lab/tests")
FEW_WORDS = 3

# Participles that are nouns, adjectives or verbs of the field, or of Python.
ALLOWED = frozenset(
    """
    accounting auditing calibrating clipping embedding encoding finding hashing imaging learning loading
    logging masking naming parsing ping pooling preprocessing reading recording sampling screening sharding
    smoothing string tempering testing timing training tuning typing voting warning weighting
    bounded composed embed exceed feed heed hundred indeed need proceed red seed seeded shed sorted speed
    spread typed wed weighted
    """.split()
)
IRREGULAR = frozenset(
    """
    begun beside bought brought built cast caught chosen cut done drawn dropped fallen found frozen given
    gone grown held hidden kept known laid left lent lost made meant met paid put said seen sent set shown
    spent spoken split stood sunk taken taught thought thrown told understood won written
    """.split()
)
ADVERBS = frozenset(
    """
    afresh again ahead alone aloud anew apart around aside away before beforehand behind below beside besides
    beyond elsewhere here inside jointly later likewise near now once otherwise outside perhaps quickly there
    together twice where
    """.split()
)
NOT_PARTICIPLES = frozenset({"cast", "cut", "put", "set", "split", "read", "beside"})
"""Also plain verbs: imperatives, as functions are named."""
NOT_ADVERBS = frozenset("apply assembly copy family imply multiply only poly reply supply tally".split())


def is_bare(name: str) -> bool:
    """Whether a name is one participle or adverb and says neither what is done nor what it is.

    >>> [is_bare(name) for name in ("charged", "beforehand", "charge_and_run", "is_charged", "embedding")]
    [True, True, False, False, False]
    """
    word = name.lower()
    if "_" in word or re.search("[a-z][A-Z]", name) or word in ALLOWED | NOT_PARTICIPLES | NOT_ADVERBS:
        return False
    regular = re.fullmatch(r"[a-z]{2,}(ed|ing)", word) is not None
    return regular or word in IRREGULAR or word in ADVERBS or re.fullmatch(r"[a-z]{3,}ly", word) is not None


def modules(folders=SOURCES):
    """Every file with its syntax tree."""
    for folder in folders:
        for path in sorted((ROOT / folder).rglob("*.py")):
            yield path, parsed(path)


@cache
def parsed(path):
    """The syntax tree of a file."""
    return ast.parse(path.read_text())


def repeated(names):
    """Those that occur more than once."""
    return sorted(name for name, count in Counter(names).items() if count > 1)


def file_names(folders=SOURCES):
    """File names, but for those that Python gives."""
    return [path.name for path, _ in modules(folders) if not path.name.startswith("__")]


def class_names(folders=SOURCES):
    """Names of classes that are exported from their file."""
    return [
        node.name
        for _, tree in modules(folders)
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    ]


def exported(tree):
    """Names of the functions, classes and methods of a module that have no leading underscore."""
    kinds = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
    for node in tree.body:
        if isinstance(node, kinds) and not node.name.startswith("_"):
            yield node.name
            if isinstance(node, ast.ClassDef):
                yield from (
                    inner.name
                    for inner in node.body
                    if isinstance(inner, kinds) and not inner.name.startswith("_")
                )


def bare_names(folders=SOURCES):
    """Every exported bare participle or adverb, with its file."""
    return [
        f"{path.relative_to(ROOT)}: {name}"
        for path, tree in modules(folders)
        for name in exported(tree)
        if is_bare(name)
    ]


def frozen_sentences(folders=TESTS):
    """Every `match=` of more than three words in a test, with its file and line."""
    return [
        f"{path.relative_to(ROOT)}:{value.lineno}"
        for path, tree in modules(folders)
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        for value in (keyword.value for keyword in node.keywords if keyword.arg == "match")
        if words_of(value) > FEW_WORDS
    ]


def asserted_sentences(folders=TESTS):
    """Every text of more than three words that an assertion looks for, or compares with."""
    return [
        f"{path.relative_to(ROOT)}:{value.lineno}"
        for path, tree in modules(folders)
        for assertion in ast.walk(tree)
        if isinstance(assertion, ast.Assert)
        for node in ast.walk(assertion.test)
        if isinstance(node, ast.Compare)
        for value in (node.left, *node.comparators)
        if words_of(value) > FEW_WORDS
    ]


def words_of(value):
    """How many words a text or pattern has; of an f-string, its fixed parts."""
    if isinstance(value, ast.Constant) and isinstance(value.value, str):
        return len(re.findall(r"[^\W\d_]{2,}", re.sub(r"\\[a-zA-Z]", " ", value.value)))
    if isinstance(value, ast.JoinedStr):
        return sum(words_of(part) for part in value.values)
    if isinstance(value, ast.BinOp):
        return words_of(value.left) + words_of(value.right)
    return 0


COUNTED = {
    "file_names_used_twice": lambda: repeated(file_names()),
    "class_names_used_twice": lambda: repeated(class_names()),
    "exported_bare_participles": bare_names,
    "errors_matched_by_sentences": frozen_sentences,
    "assertions_on_sentences": asserted_sentences,
}


def recorded() -> dict:
    """The counts on record."""
    return tomllib.loads(RECORD.read_text())


def record() -> str:
    """The counts as they are now, as the file has them."""
    lines = ["# Counts that may only fall; record them again with: python tests/wording.py"]
    return "\n".join([*lines, *(f"{name} = {len(count())}" for name, count in COUNTED.items())]) + "\n"


if __name__ == "__main__":
    if sys.argv[1:] == ["--list"]:
        for name, count in COUNTED.items():
            print(f"{name}:", *count(), sep="\n  ")
    else:
        RECORD.write_text(record())
        print(record(), end="")
