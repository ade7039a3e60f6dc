"""A kind of event from another package: found when a file that has it is read, and missed in words."""

import json
import sys

import pytest
from typer.testing import CliRunner

from dptransfer.cli.commands import app
from dptransfer.errors import ArgumentError, ReleaseError, UnknownCharge, UnknownEvent
from dptransfer.ledger import Charge, Ledger
from dptransfer.ledger.entry import _events
from dptransfer.privacy import (
    BestOfManyEvent,
    Budget,
    GaussianEvent,
    Relation,
    event_from_dict,
    event_to_dict,
)
from dptransfer.privacy.event import KINDS
from dptransfer.release import read_release
from dptransfer.release.verify import verify_files
from release.models import make_model

ADD = Relation.ADD_REMOVE
NOISE = GaussianEvent(8.0, ADD)
KIND = "laplace-of-theirs"
CODE = f'''
from dataclasses import dataclass, replace
from typing import ClassVar
from dptransfer.base import checks
from dptransfer.accounting.exact_curves import SelectionGroup
from dptransfer.accounting.steps import part_of
from dptransfer.privacy import Event, Relation, Unit

@dataclass(frozen=True)
class Laplace(Event):
    noise_multiplier: float
    relation: Relation
    label: str = ""
    unit: Unit = Unit.ROW
    kind: ClassVar[str] = "{KIND}"
    noise_field: ClassVar[str] = "noise_multiplier"
    field_checks: ClassVar[dict] = {{"noise_multiplier": checks.positive}}
    def words(self, digits=5):
        return "Laplace noise of theirs"
    def table_row(self):
        return self.words(), ""
    def further(self, distance, lattice=1):
        return replace(self, noise_multiplier=self.noise_multiplier / distance)

@part_of.register
def _(event: Laplace):
    return SelectionGroup(1 / event.noise_multiplier, False, 1)

class Other(Event):
    pass
'''
ENTRY = {"dptransfer.events": {KIND: "laplace_of_theirs:Laplace"}}


@pytest.fixture
def forget():
    """What makes this process one that has not seen the kind yet."""

    def forgotten():
        KINDS.pop(KIND, None)
        _events.cache_clear()
        sys.modules.pop("laplace_of_theirs", None)

    yield forgotten
    forgotten()


@pytest.fixture
def package(install, forget):
    uninstall = install("laplace-of-theirs", {"laplace_of_theirs": CODE}, ENTRY)

    def uninstalled():
        uninstall()
        forget()

    return uninstalled


def step(package=None, noise=4.0):
    from laplace_of_theirs import Laplace

    return Laplace(noise, ADD, label="number of rows")


@pytest.fixture
def path(package, tmp_path):
    """A ledger whose second account of three has a step of that kind."""
    path = tmp_path / "ledger.sqlite"
    ledger = Ledger(path)
    for name, events in (("plain", [NOISE]), ("theirs", [NOISE, step()]), ("other", [NOISE])):
        ledger.set_budget(name, Budget(epsilon=3.0, delta=1e-5))
        ledger.complete(ledger.charge(name, events, label="fit"))
    return path


def test_a_kind_is_found_by_the_next_process_that_reads_it(path, forget):
    spent = Ledger(path).privacy_spent("theirs")
    forget()
    assert KIND not in KINDS
    again = Ledger(path)
    again.charge("plain", [NOISE], label="fit")
    assert KIND not in KINDS  # nobody asked for it
    assert again.privacy_spent("theirs") == spent
    assert KIND in KINDS
    again.charge("theirs", [NOISE], label="fit")
    again.verify()


def test_a_step_inside_another_is_found_too(package, forget):
    told = json.loads(json.dumps(event_to_dict(BestOfManyEvent(((step(), NOISE),), 3, 1.0))))
    forget()
    assert event_from_dict(told).candidates[0][0].kind == KIND
    package()
    with pytest.raises(UnknownEvent) as caught:
        event_from_dict(told)
    assert caught.value.kind == KIND


def test_without_the_package_one_account_is_closed_and_the_others_go_on(path, package, install):
    before = {one.dataset.name: one for one in Ledger(path).datasets()}
    head = Ledger(path).head
    package()
    ledger = Ledger(path)
    ledger.verify(known_head=head)
    found = {one.dataset.name: one for one in ledger.datasets()}
    closed, whole = found.pop("theirs"), before.pop("theirs")
    assert found == before
    assert (closed.spent, closed.charges, closed.unfinished) == (None, 1, 0)
    assert (closed.budget, closed.unit) == (whole.budget, whole.unit)
    assert KIND in closed.sentence
    for refused in (
        lambda: ledger.charge("theirs", [NOISE], label="fit"),
        lambda: ledger.require_room("theirs", [NOISE]),
        lambda: ledger.privacy_spent("theirs"),
        lambda: ledger.set_budget("theirs", Budget(epsilon=9.0, delta=1e-5), note="raised"),
    ):
        with pytest.raises(UnknownCharge, match=KIND):
            refused()
    assert ledger.head == head
    ledger.complete(ledger.charge("plain", [NOISE], label="fit"))
    ledger.charge("new", [NOISE], label="fit")
    ledger.set_budget("other", Budget(epsilon=4.0, delta=1e-5), note="raised")
    (charge,) = (one for one in ledger.history("theirs") if isinstance(one, Charge))
    assert (charge.kinds, charge.status, charge.steps[1]["kind"]) == (("gaussian", KIND), "released", KIND)
    install("laplace-of-theirs", {"laplace_of_theirs": CODE}, ENTRY)  # again, and the account is open
    ledger.charge("theirs", [NOISE], label="fit")


@pytest.mark.parametrize(
    "code",
    [
        "raise RuntimeError('broken')",
        CODE.replace(f'kind: ClassVar[str] = "{KIND}"', 'kind: ClassVar[str] = "another-kind"'),
        "Laplace = 7",
        CODE.replace("(Event):\n    noise", ":\n    noise"),
    ],
)
def test_a_broken_package_is_as_good_as_none(path, package, install, code):
    package()
    install("laplace-of-theirs", {"laplace_of_theirs": code}, ENTRY)
    ledger = Ledger(path)
    try:
        for _ in range(2):
            with pytest.raises(UnknownCharge, match=KIND):
                ledger.charge("theirs", [NOISE], label="fit")
        ledger.charge("plain", [NOISE], label="fit")
        assert len(ledger.datasets()) == 3
    finally:
        KINDS.pop("another-kind", None)


def test_what_a_file_names_is_looked_up_and_never_imported_by_its_place():
    for kind in ("os:system", "laplace_of_theirs:Laplace", "", "laplace_of_theirs"):
        with pytest.raises(UnknownEvent):
            event_from_dict({"kind": kind})
    for kind in (None, 7, ["gaussian"]):
        with pytest.raises(ArgumentError):
            event_from_dict({"kind": kind})


def run(*words, code=0):
    """What a command prints, on either stream."""
    done = CliRunner().invoke(app, [str(word) for word in words])
    assert done.exit_code == code, done.output
    return done.output


def test_the_commands_show_the_missing_kind_and_go_on(path, package):
    package()
    ledger = ("--ledger", path)
    assert KIND in run("ledger", "show", *ledger).replace("\n", "").replace(" ", "")
    assert KIND in run("ledger", "history", *ledger).replace("\n", "").replace(" ", "")
    entries = json.loads(run("ledger", "history", "--json", *ledger))["entries"]
    assert entries[3]["events"][1]["kind"] == KIND
    assert "The chain holds" in run("ledger", "verify", *ledger)
    assert KIND in run("ledger", "budget", "theirs", *ledger)
    run("ledger", "budget", "theirs", "--epsilon", "9", *ledger, code=2)
    run("ledger", "budget", "plain", "--epsilon", "9", "--note", "a second study", *ledger)


def test_a_release_with_a_missing_kind_is_refused_in_words(package, tmp_path):
    make_model(events=(step(), NOISE)).save(tmp_path / "release")
    assert read_release(tmp_path / "release").events[0].kind == KIND
    package()
    with pytest.raises(ReleaseError, match=KIND):
        read_release(tmp_path / "release")
    found = verify_files(tmp_path / "release")
    assert "schema" in found.failures
    assert KIND in found.checks[0].detail
    for word, code in (("verify", 1), ("card", 2)):
        assert KIND in " ".join(run(word, tmp_path / "release", code=code).split()).replace("- ", "-")
