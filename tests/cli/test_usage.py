"""A command line that cannot be read: one line that says what is wrong and what to type."""

import pytest

FIT = "dptransfer fit photos.emb --public pool.emb --epsilon 1 --delta 1e-5 --out model/"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("pla", "dptransfer: there is no command 'pla'. Did you mean 'plan'?"),
        ("zzz", "dptransfer: there is no command 'zzz'. See: dptransfer --help"),
        ("ledger shwo", "dptransfer ledger: there is no command 'shwo'. Did you mean 'show'?"),
        ("plan --epsilom 1", "dptransfer plan: there is no option --epsilom. Did you mean --epsilon?"),
        ("--nothing", "dptransfer: there is no option --nothing. See: dptransfer --help"),
        ("fit", f"dptransfer fit: PRIVATE is missing. Example: {FIT}"),
        ("fit x.emb", "dptransfer fit: --out is missing. Example: --out model/"),
        ("plan --epsilon abc", "dptransfer plan: --epsilon takes a number; got 'abc'. Example: --epsilon 1"),
        ("plan -e abc", "dptransfer plan: --epsilon takes a number; got 'abc'. Example: --epsilon 1"),
        ("plan --dim=2.5", "dptransfer plan: --dim takes a whole number; got '2.5'. Example: --dim 1280"),
        ("plan --epsilon", "dptransfer plan: --epsilon takes a value; there is none. Example: --epsilon 1"),
        ("plan --relation x", "dptransfer plan: --relation takes add/remove or replace-one; got 'x'."),
        ("predict m x.npy --top 0", "dptransfer predict: --top must be usable: input should be greater than"),
        ("card m --json=3", "dptransfer card: --json is a switch and takes no value. Give it alone."),
        ("card one two three", "dptransfer card: too many words: two three. See: dptransfer card --help"),
    ],
)
def test_the_line_says_what_is_wrong_and_what_to_type(cli, words, said):
    result = cli(*words.split(), code=2)  # the fixture counts the lines
    assert result.stderr.startswith(said)
    assert result.stdout == ""


def test_control_characters_do_not_reach_the_terminal(cli):
    assert "\x1b" not in cli("plan", "--epsilon", "\x1b[31m", code=2).stderr
