"""`ledger verify` and `ledger export`."""

import json
import stat
from pathlib import Path

import pytest

from dptransfer.release import read_release

from .conftest import BUDGET, CLASSES


@pytest.fixture
def head(cli, data):
    """The ledger's head after one fit, as the release keeps it."""
    cli(
        "fit",
        data / "private.npz",
        "--classes",
        CLASSES,
        "-m",
        "mean",
        *BUDGET,
        "--name",
        "clinic",
        "--out",
        "m",
    )
    return read_release("m").provenance.ledger_head


def test_the_chain_holds_and_has_the_head_that_a_release_keeps(cli, cli_json, head):
    assert "The chain holds." in cli("ledger", "verify").stdout
    assert "the given head is in it" in cli("ledger", "verify", "--head", head.upper()).stdout
    assert cli_json("ledger", "verify", "--head", head)["known_head"] == head


def test_a_head_that_the_record_has_lost_is_refused(cli, head):
    other = ("0" if head[0] != "0" else "1") + head[1:]
    assert "not in" in cli("ledger", "verify", "--head", other, code=2).stderr
    assert "64 hexadecimal digits" in cli("ledger", "verify", "--head", head[:12], code=2).stderr


def test_the_record_is_exported_line_by_line_for_its_owner_alone(cli, cli_json, head):
    assert cli_json("ledger", "export", "--out", "record.jsonl")["head"]
    lines = [json.loads(line) for line in Path("record.jsonl").read_text().splitlines()]
    assert lines == cli_json("ledger", "history")["entries"]
    assert lines[0]["kind"] == "charge"
    assert stat.S_IMODE(Path("record.jsonl").stat().st_mode) == 0o600
    assert "exists" in cli("ledger", "export", "--out", "record.jsonl", code=2).stderr
