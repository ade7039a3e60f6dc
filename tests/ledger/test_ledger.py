import copy
import math
import pickle
from dataclasses import replace

import numpy as np
import platformdirs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dptransfer.accounting import fits, guarantee_of
from dptransfer.data.embeddings import PrivateEmbeddings
from dptransfer.errors import (
    ArgumentError,
    BudgetError,
    BudgetExceeded,
    DataError,
    LedgerError,
    PrivacyWarning,
)
from dptransfer.ledger import BudgetChange, Charge, ClosingEntry, DataSet, Ledger
from dptransfer.ledger.entry import UNFINISHED
from dptransfer.privacy import Budget, GaussianEvent

from .racers import GRANTED, REFUSED, charge_and_die, charge_once
from .samples import ADD, GAUSS, Content, chosen


def three_and_no_more():
    """A budget that three of the racers' charges fit and four do not."""
    budget = Budget(epsilon=guarantee_of([GAUSS] * 3, 1e-5).epsilon * 1.005, delta=1e-5)
    assert fits([GAUSS] * 3, budget)
    assert not fits([GAUSS] * 4, budget)
    return budget


class Unreadable:
    """A data set whose content must not be looked at."""

    name = "clinic-a"

    @property
    def fingerprint(self):
        raise AssertionError("the rows were read")


def test_a_charge_is_recorded_with_everything_an_owner_needs(ledger):
    receipt = ledger.charge("clinic-a", [GAUSS, chosen(0.5)], label="MeanPrototypes")
    (entry,) = ledger.history()
    assert isinstance(entry, Charge)
    assert entry.events == (GAUSS, chosen(0.5))
    assert (entry.label, entry.dataset.name, entry.status) == ("MeanPrototypes", "clinic-a", UNFINISHED)
    assert (receipt.entry, receipt.head, receipt.dataset) == (1, ledger.head, entry.dataset.id)
    assert entry.time == receipt.time
    assert entry.time.endswith("+00:00")
    assert entry.process > 0
    assert entry.version


def test_a_named_data_set_is_charged_without_looking_at_its_rows(ledger):
    ledger.set_budget("clinic-a", Budget(epsilon=1.0))
    ledger.charge(Unreadable(), [chosen(0.9)], label="fit")
    with pytest.raises(BudgetExceeded):
        ledger.charge(Unreadable(), [chosen(0.9)], label="fit")
    nameless = Unreadable()
    nameless.name = None
    with pytest.raises(AssertionError, match="rows were read"):  # so the check above can fail
        ledger.charge(nameless, [chosen(0.9)], label="fit")


def test_embeddings_are_filed_under_their_name_or_else_under_their_content(ledger):
    def embeddings(value, name):
        return PrivateEmbeddings(np.full((2, 2), value), [0, 1], classes=[0, 1], name=name)

    for value, name in [(1.0, "a"), (2.0, "a"), (1.0, None), (1.0, None), (2.0, None)]:
        ledger.charge(embeddings(value, name), [GAUSS], label="fit")
    assert [(one.dataset.name, one.charges) for one in ledger.datasets()] == [("a", 2), (None, 2), (None, 1)]
    assert len(ledger.history(embeddings(1.0, None))) == 2
    assert len(ledger.history(embeddings(3.0, "a"))) == 2
    assert ledger.history(embeddings(3.0, None)) == []


@pytest.mark.parametrize("word", ["", "run", "A" * 32, "0" * 31])
def test_what_two_runs_might_share_is_no_number_of_a_run(ledger, word):
    with pytest.raises(ArgumentError, match="random number"):
        ledger.charge("clinic-a", [GAUSS], label="fit", workspace=word)
    assert ledger.history() == []


def test_a_number_of_a_run_is_for_its_own_steps_label_and_data_set_alone(ledger):
    number = "5e" * 16
    paid = ledger.charge("clinic-a", [GAUSS], label="fit", workspace=number)
    assert ledger.charge("clinic-a", [GAUSS], label="fit", workspace=number).entry == paid.entry
    other = GaussianEvent(GAUSS.noise_multiplier * (1 - 1e-9), ADD, label=GAUSS.label)
    for name, events, label in (
        ("clinic-a", [other], "fit"),
        ("clinic-a", [GAUSS, GAUSS], "fit"),
        ("clinic-a", [], "fit"),
        ("clinic-a", [GAUSS], "another fit"),
        ("clinic-b", [GAUSS], "fit"),
    ):
        with pytest.raises(LedgerError, match="workspace"):
            ledger.charge(name, events, label=label, workspace=number)
    assert len(ledger.history()) == 1


def test_a_refused_charge_leaves_no_trace(ledger):
    ledger.set_budget("clinic-a", three_and_no_more())
    for _ in range(3):
        ledger.charge("clinic-a", [GAUSS], label="fit")
    before = ledger.head, ledger.history()
    with pytest.raises(BudgetExceeded):
        ledger.charge("clinic-a", [GAUSS], label="fit")
    assert (ledger.head, ledger.history()) == before
    ledger.charge("clinic-b", [GAUSS] * 9, label="fit")  # no budget, no limit
    assert ledger.head != before[0]


@settings(max_examples=25, deadline=None)
@given(st.lists(st.floats(0.01, 2.0), max_size=12), st.floats(0.1, 4.0))
def test_what_is_granted_never_exceeds_the_budget_and_refusals_are_needed(requests, limit):
    ledger, granted = Ledger.in_memory(), []
    ledger.set_budget("d", Budget(epsilon=limit))
    for epsilon in requests:
        whole = [chosen(one) for one in [*granted, epsilon]]
        try:
            ledger.charge("d", [chosen(epsilon)], label="fit")
            granted.append(epsilon)
        except BudgetExceeded:
            assert not fits(whole, Budget(epsilon=limit))
            assert math.fsum([*granted, epsilon]) > limit * (1 - 1e-6)
    assert math.fsum(granted) <= limit * (1 + 1e-12)
    assert [event.epsilon for entry in ledger.history()[1:] for event in entry.events] == granted


def test_a_charge_without_a_result_has_spent(ledger):
    ledger.set_budget("clinic-a", Budget(epsilon=1.0))
    lost, failed = (ledger.charge("clinic-a", [chosen(0.4)], label="fit") for _ in range(2))
    ledger.complete(failed, "failed", detail="out of memory")
    with pytest.raises(BudgetExceeded):
        ledger.charge("clinic-a", [chosen(0.4)], label="fit")
    charges = {entry.number: entry for entry in ledger.history() if isinstance(entry, Charge)}
    assert charges[lost.entry].status == UNFINISHED
    assert (charges[failed.entry].status, charges[failed.entry].detail) == ("failed", "out of memory")
    assert ledger.datasets()[0].unfinished == 1
    assert ledger.privacy_spent("clinic-a").epsilon == pytest.approx(0.8, rel=1e-6)


def test_a_charge_is_closed_once_and_only_by_its_own_receipt(ledger):
    receipt = ledger.charge("clinic-a", [GAUSS], label="fit")
    ledger.set_budget("clinic-a", Budget(epsilon=9.0, delta=1e-5))
    for foreign in (
        Ledger.in_memory().charge("clinic-a", [GAUSS], label="fit"),
        replace(receipt, entry=2, head=ledger.head),
        replace(receipt, entry=0),
        replace(receipt, entry=99),
    ):
        with pytest.raises(LedgerError, match="is another"):
            ledger.complete(foreign)
    with pytest.raises(ArgumentError, match="outcome"):
        ledger.complete(receipt, "refunded")
    ledger.complete(receipt, "released")
    with pytest.raises(LedgerError, match="is 'released'"):
        ledger.complete(receipt, "failed")
    assert [type(entry) for entry in ledger.history()] == [Charge, BudgetChange, ClosingEntry]


def test_a_process_killed_after_charging_has_spent(tmp_path, processes):
    path = tmp_path / "ledger"
    child = processes.Process(target=charge_and_die, args=(path, "clinic-a"))
    child.start()
    child.join()
    assert child.exitcode == -9
    (entry,) = Ledger(path).history()
    assert (entry.label, entry.status, entry.process) == ("doomed", UNFINISHED, child.pid)


def race(processes, path, name):
    start = processes.Barrier(8)
    children = [processes.Process(target=charge_once, args=(path, name, start)) for _ in range(8)]
    for child in children:
        child.start()
    for child in children:
        child.join()
    return [child.exitcode for child in children]


def test_eight_processes_at_once_cannot_overspend_together(tmp_path, processes):
    path = tmp_path / "ledger"
    Ledger(path).set_budget("clinic-a", three_and_no_more())
    outcomes = race(processes, path, "clinic-a")
    assert sorted(outcomes) == [GRANTED] * 3 + [REFUSED] * 5
    assert len([entry for entry in Ledger(path).history() if isinstance(entry, Charge)]) == 3


def test_a_limit_that_is_lowered_while_rows_are_sketched_holds(ledger):
    class Lowering:
        name = "clinic-a"

        @property
        def rows(self):
            ledger.set_budget("clinic-a", Budget(epsilon=0.1))
            return np.random.default_rng(0).normal(size=(9, 20))

    ledger.set_budget("clinic-a", Budget(epsilon=1.0))
    with pytest.raises(BudgetExceeded):
        ledger.charge(Lowering(), [chosen(0.5)], label="mean")
    assert not [entry for entry in ledger.history() if isinstance(entry, Charge)]


def test_raising_and_lowering_a_budget_is_on_record(ledger):
    assert ledger.budget_of("clinic-a") is None
    small, large = Budget(epsilon=0.5), Budget(epsilon=2.0)
    ledger.set_budget("clinic-a", large, note="board decision 7")
    ledger.charge("clinic-a", [chosen(1.0)], label="fit")
    ledger.set_budget("clinic-a", small, note="lowered")
    assert ledger.budget_of("clinic-a") == small
    with pytest.raises(BudgetExceeded, match="epsilon 1 is"):  # nothing more, however little
        ledger.charge("clinic-a", [chosen(1e-6)], label="fit")
    ledger.set_budget("clinic-a", large, note="raised again")
    ledger.charge("clinic-a", [chosen(0.9)], label="fit")
    changes = [entry for entry in ledger.history() if isinstance(entry, BudgetChange)]
    assert [(one.budget, one.note) for one in changes] == [
        (large, "board decision 7"),
        (small, "lowered"),
        (large, "raised again"),
    ]


def test_a_data_set_is_found_by_name_or_by_the_start_of_its_id(ledger):
    ledger.charge("clinic-a", [GAUSS], label="fit")
    nameless = ledger.charge(Content("ab" * 32), [GAUSS], label="fit")
    assert ledger.find(" clinic-a").name == "clinic-a"
    found = ledger.find(nameless.dataset[:8].upper())
    assert found == DataSet(nameless.dataset)
    ledger.set_budget(found, Budget(epsilon=1.0))
    assert ledger.budget_of(Content("ab" * 32)) == Budget(epsilon=1.0)
    for nothing in ("clinic-b", nameless.dataset[:5], nameless.dataset[:8] + "zz"):
        with pytest.raises(LedgerError, match="dptransfer ledger show"):
            ledger.find(nothing)
    ledger.charge(nameless.dataset[:8], [GAUSS], label="fit")  # a name that looks like an id wins
    assert ledger.find(nameless.dataset[:8]).name == nameless.dataset[:8]


def test_an_id_of_another_ledger_is_not_taken_for_a_new_data_set(ledger):
    other = Ledger.in_memory()
    other.charge("clinic-a", [GAUSS], label="fit")
    ledger.charge("clinic-a", [GAUSS], label="fit")
    with pytest.raises(LedgerError, match="one ledger only"):
        ledger.set_budget(other.find("clinic-a"), Budget(epsilon=1.0))
    ledger.set_budget(ledger.find("clinic-a"), Budget(epsilon=1.0))


def test_the_default_ledger_is_the_one_the_environment_names(tmp_path, monkeypatch):
    monkeypatch.setenv("DPTRANSFER_LEDGER", str(tmp_path / "named"))
    assert Ledger.default_if_there() is None
    assert Ledger.default().path == (tmp_path / "named").resolve()
    assert repr(Ledger.default_if_there()) == repr(Ledger.default()) != repr(Ledger.in_memory())
    monkeypatch.setenv("DPTRANSFER_LEDGER", "")
    monkeypatch.setattr(platformdirs, "user_data_path", lambda app: tmp_path / app)
    assert Ledger.default().path == (tmp_path / "dptransfer" / "ledger.sqlite").resolve()
    assert Ledger.in_memory().path is None


def test_a_copy_of_a_ledger_is_the_same_ledger(ledger):
    ledger.set_budget("clinic-a", Budget(epsilon=1.0))
    copies = [copy.copy(ledger), copy.deepcopy(ledger)]
    if ledger.path:
        copies.append(pickle.loads(pickle.dumps(ledger)))
    else:
        with pytest.raises(LedgerError, match="in-memory"):
            pickle.dumps(ledger)
    ledger.charge("clinic-a", [chosen(0.9)], label="fit")
    for one in copies:
        with pytest.raises(BudgetExceeded):
            one.charge("clinic-a", [chosen(0.9)], label="fit")


def test_a_limit_that_promises_little_brings_a_warning_and_one_that_promises_nothing_is_refused():
    ledger = Ledger.in_memory()
    with pytest.warns(PrivacyWarning, match="epsilon"):
        ledger.set_budget("clinic-a", Budget(epsilon=20.0, delta=1e-5))
    assert ledger.budget_of("clinic-a") == Budget(epsilon=20.0, delta=1e-5)
    for absurd in (Budget(epsilon=1e308, delta=1e-5), Budget(epsilon=1.0, delta=0.5)):
        with pytest.raises(BudgetError):
            ledger.set_budget("clinic-a", absurd)
    assert ledger.budget_of("clinic-a") == Budget(epsilon=20.0, delta=1e-5)


def test_a_ledger_that_cannot_be_read_says_so_and_raises_nothing(tmp_path):
    path = tmp_path / "ledger.sqlite"
    ledger = Ledger(path)
    ledger.set_budget("<clinic", Budget(epsilon=1.0))
    assert "&lt;clinic" in ledger._repr_html_()
    path.write_bytes(b"no ledger at all" * 100)
    shown = ledger._repr_html_()
    assert shown.startswith("<p>")
    assert "clinic" not in shown


def test_data_without_content_are_refused_before_the_charge(ledger):
    class AllBlack(Content):
        def require_content(self):
            raise DataError("all are black")

    with pytest.raises(DataError):
        ledger.charge(AllBlack("0" * 64), [GAUSS], label="fit")
    assert ledger.history() == []


def test_a_limit_with_charges_is_changed_for_a_reason(ledger):
    ledger.set_budget("clinic-a", Budget(epsilon=1.0))
    ledger.set_budget("clinic-a", Budget(epsilon=2.0))  # nothing was charged against it
    ledger.charge("clinic-a", [chosen(0.5)], label="fit")
    with pytest.raises(ArgumentError):
        ledger.set_budget("clinic-a", Budget(epsilon=3.0))
    assert ledger.budget_of("clinic-a") == Budget(epsilon=2.0)
    ledger.set_budget("clinic-a", Budget(epsilon=2.0))  # the same limit again
    ledger.set_budget("clinic-a", Budget(epsilon=3.0), note="board decision 7")
    assert ledger.budget_of("clinic-a") == Budget(epsilon=3.0)
