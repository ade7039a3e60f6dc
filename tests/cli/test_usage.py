"""A command line that cannot be read: one line that says what is wrong and what to type."""

import pytest
import typer

from dptransfer.cli.main import app

FIT = "dptransfer fit photos/ --public pool/ --epsilon 1 --delta 1e-5 --out model/"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("pla", "dptransfer: there is no command 'pla'. Did you mean 'plan'?"),
        ("zzz", "dptransfer: there is no command 'zzz'. See: dptransfer --help"),
        ("ledger shwo", "dptransfer ledger: there is no command 'shwo'. Did you mean 'show'?"),
        ("plan --epsilom 1", "dptransfer plan: there is no option --epsilom. Did you mean --epsilon?"),
        ("--nothing", "dptransfer: there is no option --nothing. See: dptransfer --help"),
        ("fit", f"dptransfer fit: PRIVATE is missing. Example: {FIT}"),
        ("encode x", "dptransfer encode: --out is missing."),
        ("plan --epsilon abc", "dptransfer plan: --epsilon takes a number; got 'abc'. Example: --epsilon 1"),
        ("plan -e abc", "dptransfer plan: --epsilon takes a number; got 'abc'. Example: --epsilon 1"),
        ("plan --dim=2.5", "dptransfer plan: --dim takes a whole number; got '2.5'. Example: --dim 1280"),
        ("plan --epsilon", "dptransfer plan: --epsilon takes a value; there is none. Example: --epsilon 1"),
        ("plan --relation x", "dptransfer plan: --relation takes add/remove or replace-one; got 'x'."),
        ("predict m x.npy --top 0", "dptransfer predict: --top takes a whole number of at least 1; got '0'."),
        ("card m --json=3", "dptransfer card: --json is a switch and takes no value. Give it alone."),
        ("plan photos/", "dptransfer plan: too many words: photos/. Example: dptransfer plan --epsilon 1"),
        ("card one two three", "dptransfer card: too many words: two three. See: dptransfer card --help"),
    ],
)
def test_the_line_says_what_is_wrong_and_what_to_type(cli, words, said):
    result = cli(*words.split(), code=2)  # the fixture counts the lines
    assert result.stderr.startswith(said)
    assert result.stdout == ""


def test_control_characters_do_not_reach_the_terminal(cli):
    assert "\x1b" not in cli("plan", "--epsilon", "\x1b[31m", code=2).stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("fit x.emb --k 5 --out m", "dptransfer fit: --k 5 is now --set k=5"),
        ("fit x.emb --k --out m", "dptransfer fit: --k VALUE is now --set k=VALUE"),
        ("fit x.emb --out m --noise-multiplier=20", "--noise-multiplier 20 is now --set noise_multiplier=20"),
        (
            "fit x.emb --out m --size 900",
            "--size 900 is now --set data.size=900; the side",
        ),
        ("plan --class-counts 12,8", "--class-counts 12,8 is now --set data.class_counts=12,8"),
        ("plan --rho 0.5", "dptransfer plan: --rho 0.5 is now --budget rho=0.5"),
        ("ledger budget clinic --mu 1", "dptransfer ledger budget: --mu 1 is now --budget mu=1"),
        ("plan --tune-on-public", "dptransfer plan: --tune-on-public is now --set tune_on_public=true"),
        ("fit x --new-data-set --out m", "--new-data-set is now --set data.new_data_set=true"),
        ("fit x --out m --batch 8", "dptransfer fit: --batch is now an option of 'dptransfer encode'"),
    ],
)
def test_an_option_of_before_says_what_it_is_called_now(cli, ledger, tmp_path, words, said):
    assert said in cli(*words.split(), code=2).stderr
    assert list(tmp_path.iterdir()) == []  # nothing is charged, nothing written


def test_other_commands_have_their_own_options_of_such_names(cli):
    assert "there is no option --k." in cli("card", "m", "--k", "5", code=2).stderr


def test_no_command_has_more_than_35_parameters():
    whole = typer.main.get_command(app)
    most = {name: len(whole.get_command(None, name).params) for name in whole.list_commands(None)}
    assert max(most.values()) <= 35
    assert most["fit"] > 20  # so they are counted
