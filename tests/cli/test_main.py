"""The command as a whole: help, version, errors in one line, exit codes, behaviour in a pipe."""

import os
import re
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from dptransfer import __version__
from dptransfer.cli.commands import _FIRST, app
from dptransfer.cli.screen import one_line
from dptransfer.errors import DataError

HEAVY = (
    "numpy", "scipy", "torch", "opendp", "pandas", "sklearn", "dp_accounting", "PIL", "pydantic",
    "matplotlib", "ray", "multiprocessing",
)  # fmt: skip
COMMANDS = "methods check plan encode fit predict evaluate card verify export ledger".split()


def python(*words: str, **env: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, *words], capture_output=True, text=True, env={**os.environ, **env}, timeout=60
    )


def told(*words: str) -> str:
    """The help of a command, and then which heavy modules it has loaded."""
    code = (
        f"import sys\nfrom dptransfer.cli.main import run\nsys.argv = ['dptransfer', *{words!r}, '--help']\n"
        "try:\n    run()\nexcept SystemExit as end:\n    assert end.code == 0\n"
        f"print('LOADED', [name for name in {HEAVY!r} if name in sys.modules])"
    )
    done = python("-W", "error", "-c", code)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_new_ledger_is_announced_on_standard_error(ledger):
    limit = ("-m", "dptransfer", "ledger", "budget", "clinic", "--epsilon", "1")
    first, second = (python(*limit) for _ in range(2))
    assert first.stderr.startswith(f"Created a new ledger: {ledger.resolve()}")
    assert (second.stderr, second.stdout) == ("", first.stdout)


@pytest.mark.parametrize("words", [(), ("fit",), ("encode",), ("ledger", "show")])
def test_help_loads_nothing_heavy(words):
    assert told(*words).endswith("LOADED []\n")


def test_the_check_for_heavy_modules_can_fail():
    done = python("-c", f"import numpy, sys; print([name for name in {HEAVY!r} if name in sys.modules])")
    assert "numpy" in done.stdout


def test_every_help_has_an_example_and_no_value_beside_a_switch(cli):
    for command in (*COMMANDS, "ledger show", "ledger history"):
        shown = " ".join(cli(*command.split(), "--help").stdout.split())
        assert f"Example: dptransfer {command}" in shown
        assert "--help" in shown
        assert "bool" not in shown


def test_the_help_of_a_fit_shows_first_what_most_fits_need(cli):
    first = cli("fit", "--help").stdout.partition("─ Options ─")[2].partition("╰")[0]
    assert re.findall(r"^│ (--[a-z]+)", first, re.MULTILINE) == [*_FIRST, "--help"]
    assert len(_FIRST) == 10


@pytest.mark.parametrize("words", ["dptransfer fit photos/ --pers", "dptransfer fit --epsilon 1 --pers"])
def test_a_shell_completes_a_line_that_is_not_whole(words):
    asked = {"COMP_WORDS": words, "COMP_CWORD": str(len(words.split()) - 1)}
    done = python("-m", "dptransfer", **asked, _DPTRANSFER_COMPLETE="complete_bash")
    assert "--person" in done.stdout


def test_version_through_the_module_entry():
    done = python("-m", "dptransfer", "--version")
    assert (done.returncode, done.stdout.strip()) == (0, f"dptransfer {__version__}")


def test_an_error_in_a_real_process_is_one_line_without_colour():
    done = python("-W", "error", "-m", "dptransfer", "verify", "nowhere")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("Error: ")
    assert done.stderr.count("\n") == 1
    assert "\x1b" not in done.stderr


def test_ascii_terminals_get_no_traceback():
    words = ("plan", "-m", "mean", "-e", "1", "-d", "1e-5", "--classes", "3", "--dim", "4")
    done = python("-m", "dptransfer", *words, PYTHONIOENCODING="ascii")
    assert done.returncode == 0, done.stderr
    assert "differentially private" in done.stdout


def test_a_reader_that_leaves_early_is_no_error(model):
    command = f"{sys.executable} -m dptransfer card {model} --format html | head -c 10"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=60)
    assert done.stderr == ""


def test_debug_shows_the_traceback_wherever_it_stands():
    for words in (("--debug", "verify", "nowhere"), ("verify", "nowhere", "--debug")):
        result = CliRunner().invoke(app, words)
        assert result.exit_code == 2
        assert "Traceback" in result.stderr
        assert "release is a directory" in result.stderr


@pytest.mark.parametrize(
    ("problem", "code", "words"),
    [
        (KeyboardInterrupt(), 130, "Interrupted.\n"),
        (KeyboardInterrupt("The budget is spent."), 130, "The budget is spent."),
        (OSError(28, "No space left on device", "model"), 2, "Free some space"),
        (PermissionError(13, "Permission denied", "model"), 2, "Change its permissions"),
        (MemoryError(), 2, "memory"),
    ],
)
def test_what_a_command_may_run_into(monkeypatch, problem, code, words):
    def fail(path):
        raise problem

    monkeypatch.setattr("dptransfer.methods.replan.verify_release", fail)
    result = CliRunner().invoke(app, ["verify", "model"])
    assert result.exit_code == code
    assert words in result.stderr
    assert result.stderr.count("\n") == 1


def test_an_interruption_says_what_goes_on():
    assert "resume" in one_line(KeyboardInterrupt(), "encode")
    assert "what was charged" in one_line(KeyboardInterrupt(), "fit")


def test_words_added_to_an_error_are_told_and_the_traceback_of_a_worker_is_not():
    problem = DataError("A file is gone.")
    problem.add_note("Others stay.")
    problem.add_note("In a worker:\n  File secret.py, line 3")
    assert one_line(problem).endswith(". Others stay.")


def test_a_programming_error_is_not_hidden(monkeypatch):
    def fail(path):
        raise AssertionError("a bug")

    monkeypatch.setattr("dptransfer.methods.replan.verify_release", fail)
    assert isinstance(CliRunner().invoke(app, ["verify", "model"]).exception, AssertionError)


def test_control_characters_do_not_reach_the_terminal():
    assert "\x1b" not in one_line(FileNotFoundError(2, "No such file", "a\x1b[31m\nb"))
