"""The sentences that people read are those on record."""

import difflib
import re

import pytest

import messages


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        return messages.record(tmp_path_factory.mktemp("messages"), patch)


def test_every_message_is_the_one_on_record(found):
    recorded = messages.RECORD.read_text()
    changed = difflib.unified_diff(recorded.splitlines(), found.splitlines(), n=1, lineterm="")
    assert found == recorded, "\n".join(["Run: python tests/messages.py", *changed])


def test_every_line_of_the_session_and_every_error_is_there(found):
    assert found.count("$ dptransfer ") == len(messages.SESSION.strip().splitlines())
    assert len(re.findall(r"^# .*: \w+$", found, re.MULTILINE)) == len(list(messages.errors()))


def test_no_message_is_a_traceback(found):
    assert "Traceback" not in found
    assert "(exit code 1)" in found  # a seeded release does not verify
    assert found.count("(exit code 2)") >= 20
