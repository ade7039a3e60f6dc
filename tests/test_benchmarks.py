"""Every script in benchmarks/ says how it is called."""

import runpy
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent.parent / "benchmarks"
SCRIPTS = sorted(file for file in FOLDER.glob("*.py") if "__main__" in file.read_text("utf-8"))


@pytest.mark.slow
@pytest.mark.parametrize("script", SCRIPTS, ids=lambda file: file.stem)
def test_every_benchmark_answers_help(script, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", [str(script), "--help"])
    monkeypatch.syspath_prepend(str(FOLDER))
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(script), run_name="__main__")
    assert ended.value.code == 0
    said = capsys.readouterr().out
    assert said.startswith("usage: ")
    assert script.name in said


@pytest.mark.slow
def test_three_processes_make_one_model(tmp_path):
    command = [sys.executable, str(FOLDER / "demo_federate.py"), str(tmp_path / "out")]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=300)
    assert "Verified" in done.stdout
    assert len(list((tmp_path / "out" / "shares").iterdir())) == 90
