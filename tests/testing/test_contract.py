import subprocess
import sys

import pytest

from dptransfer.errors import ArgumentError, DataError
from dptransfer.mechanisms import row_shares
from dptransfer.testing.contract import ContractBroken, require, run_checks
from dptransfer.testing.sample_data import noting_releases


def fail(subject):
    require(subject != "bad", "it is bad")


def raise_library_error(subject):
    raise DataError("A file is damaged.")


def test_the_rule_the_subject_and_what_was_found_are_named():
    run_checks("good", "The thing", {"it is good": fail})
    with pytest.raises(ContractBroken) as broken:
        run_checks("bad", "The thing", {"it is good": fail})
    assert str(broken.value) == "The thing breaks a rule: it is good. Found: it is bad."
    assert isinstance(broken.value, AssertionError)


def test_any_error_breaks_the_rule_and_stays_its_cause():
    with pytest.raises(ContractBroken, match="DataError") as broken:
        run_checks("good", "The thing", {"it works": raise_library_error})
    assert isinstance(broken.value.__cause__, DataError)


def test_rules_may_be_skipped_by_their_names_alone():
    checks = {"it is good": fail, "it works": raise_library_error}
    run_checks("bad", "The thing", checks, skip=[*checks])
    with pytest.raises(ArgumentError, match="Did you mean"):
        run_checks("good", "The thing", checks, skip=["it is god"])


def test_no_test_framework_is_needed():
    code = (
        "import sys\n"
        "sys.modules.update(dict.fromkeys(['pytest', 'hypothesis', '_pytest'], None))\n"
        "from dptransfer.methods import MeanPrototypes\n"
        "from dptransfer.testing import METHOD_CHECKS, check_method\n"
        "check_method(MeanPrototypes, skip=list(METHOD_CHECKS)[2:])\n"
        "print('passed')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "passed\n", done.stderr


def test_what_is_released_before_the_charge_is_about_nobody():
    seen = []
    with noting_releases(lambda *given: seen.append(given)) as ledger:
        row_shares.note("made up", "query", "rows", "labels")
        ledger.charge("clinic", [], label="a fit")
        row_shares.note("real", "query", "rows", "labels")
    row_shares.note("after", "query", "rows", "labels")
    assert [step for step, *_ in seen] == ["real"]
