import json
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from dptransfer.cli.commands import app


@pytest.fixture(autouse=True)
def ledger(tmp_path, monkeypatch) -> Path:
    """No test may touch the user's own ledger."""
    path = tmp_path / "ledger.sqlite"
    monkeypatch.setenv("DPTRANSFER_LEDGER", str(path))
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    monkeypatch.chdir(tmp_path)
    return path


@pytest.fixture
def cli() -> Callable:
    """Run a command; anything but a clean exit fails the test, so no traceback goes unnoticed."""

    def run(*words: object, code: int = 0):
        result = CliRunner().invoke(app, [str(word) for word in words])
        assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
        assert result.exit_code == code, result.output
        assert "Traceback" not in result.output
        if code == 2:
            assert result.stderr.startswith("Error: ")
            assert result.stderr.count("\n") == 1  # one line
        return result

    return run


@pytest.fixture
def cli_json(cli) -> Callable:
    """Run a command with --json and read what it printed."""
    return lambda *words, code=0: json.loads(cli(*words, "--json", code=code).stdout)
