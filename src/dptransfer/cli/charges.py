"""Charges as commands make and show them: free disk space, rescue, accounts, noisy steps, the promise."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import dptransfer as dpt
from dptransfer.cli import lib
from dptransfer.cli.main import stop_word
from dptransfer.cli.screen import say, show_facts, show_json, show_table
from dptransfer.errors import ArgumentError, DataError, DPTransferError, ReleaseError
from dptransfer.privacy import Event, Guarantee, Relation, Unit, event_to_dict, rounded_up

_CHUNK = 2**20
_RATES = (0.01, 0.001)
_MOST = 20


def open_ledger(path: Path | None, *, must_exist: bool = False, strict_names: bool = False) -> dpt.Ledger:
    """The ledger at `path`, the user's own without one; with `must_exist` no new one is made.

    Who only wants to read must not be shown an empty ledger because a path was mistyped.
    """
    where = dpt.Ledger.default_path() if path is None else path
    if must_exist and not where.exists():
        raise ArgumentError(f"There is no ledger at '{where}'; a budget or charge makes one. Check --ledger.")
    return dpt.Ledger(where, strict_names=strict_names)


def room_for(facts: lib.Facts, method: dpt.methods.PrivateMethod, network: lib.Network | None = None) -> int:
    """Bytes that a release of this method may take, on the safe side.

    Args:
        facts: of the data.
        method: what is fitted.
        network: of a method on pictures, the one that it may change in every weight.
    """
    if network is not None:
        whole = sum(int(tensor.numel()) for tensor in network.module.state_dict().values())
        return 4 * whole + 24 * network.dimension * len(facts.classes) + _CHUNK
    kinds = getattr(method, "candidates", ()) or (method,)
    prototypes = max(int(getattr(kind, "k", None) or 1) for kind in kinds)
    return 24 * facts.dimension * len(facts.classes) * prototypes + 4 * facts.dimension * 1024 + _CHUNK


def require_writable(target: Path, *, overwrite: bool, room: int = _CHUNK) -> None:
    """Raise unless a release of `room` bytes can be written at `target` now.

    The room is really taken, in a file without a name, and given back at once: only that finds a full disk,
    a quota and a read-only folder alike.
    """
    lib.require_target(target, overwrite=overwrite)
    parents = [parent for parent in target.absolute().parents if parent.exists()]
    try:
        with tempfile.TemporaryFile(dir=parents[0]) as probe:
            for start in range(0, room, _CHUNK):
                probe.write(bytes(min(_CHUNK, room - start)))
            probe.flush()
    except OSError as problem:
        why = f"({problem.strerror or problem}). Free some space or choose another path"
        raise ReleaseError(f"Nothing was charged: '{target}' must be writable; it is not {why}.") from problem


@contextmanager
def claim_release(
    target: Path, *, overwrite: bool, room: int = _CHUNK, workspace: Path | None = None
) -> Iterator[None]:
    """Hold a name from before the charge until what is paid for is written: of several runs one is charged.

    Args:
        target: the release.
        overwrite: whether one that is there may be replaced.
        room: as `require_writable`, which is asked once nobody else can take the name.
        workspace: the folder of the fit, which must not make the name its own.
    """
    if workspace is not None and workspace.resolve().is_relative_to(target.resolve()):
        raise ReleaseError(
            f"Nothing was charged: '{workspace}' is a workspace, and must not be in '{target}'."
        )
    with ExitStack() as held:
        try:
            held.enter_context(lib.claim(target))
        except DataError as problem:
            raise ReleaseError(f"Nothing was charged. {problem}") from None
        require_writable(target, overwrite=overwrite, room=room)
        yield


def write_or_rescue(write: Callable[[Path], object], target: Path, what: str) -> None:
    """Write a result; one that is paid for is put elsewhere rather than lost.

    Args:
        write: writes it to a path.
        target: the path.
        what: what is written, in words.
    """
    try:
        write(target)
    except (DPTransferError, OSError) as problem:
        said = str(problem)
        if not isinstance(problem, DPTransferError):
            said = f"'{target}' cannot be written ({problem.strerror})."
        rescued = Path(tempfile.mkdtemp(prefix="dptransfer-")) / target.name
        try:
            write(rescued)
        except (DPTransferError, OSError):
            raise ReleaseError(f"{said} The charge stands, and the {what} is lost.") from problem
        raise ReleaseError(
            f"{said} The charge stands, so the {what} was kept: move '{rescued}' to where it belongs."
        ) from problem


@contextmanager
def explain_interruption(book: dpt.Ledger, workspace: Path | None = None) -> Iterator[None]:
    """Let an interruption say whether the budget is spent: it is, once the ledger was charged.

    A run in a workspace was perhaps charged by an earlier process, and goes on without another charge.
    """
    before = len(_entries(book))
    try:
        yield
    except KeyboardInterrupt as stopped:
        new = _entries(book)[before:]
        own = [entry for entry in new if isinstance(entry, lib.Charge) and entry.process == os.getpid()]
        word = stop_word(stopped)
        if workspace is not None:
            goes_on = f"The same command with --workspace {workspace} goes on; nothing is charged twice."
            said = f"{word}; no release was written. {goes_on}"
        elif not own:
            said = f"{word} before any charge; no release was written."
        else:
            spent = "its budget is spent" if own[-1].events else "it cost nothing"
            entry = f"(entry {own[-1].number} of the ledger {book.path}), and no release was written"
            said = f"{word} after the charge: {spent} {entry}. The same again is charged again."
        raise type(stopped)(said) from None


def _entries(book: dpt.Ledger) -> list[lib.Entry]:
    """What is on record; a file that is not there yet is not made for it."""
    return book.history(recheck=False) if book.path is not None and book.path.exists() else []


def privacy_json(method: str, guarantee: Guarantee, events: Sequence[Event]) -> lib.JsonObject:
    """The fields that every command's JSON has in common, with the attacker's view."""
    advantage = dpt.accounting.membership_advantage(events)
    attack = {"true_positive_rate": _rates(events), "membership_advantage": advantage}
    told = {name: getattr(guarantee, name) for name in ("epsilon", "delta", "relation", "unit")}
    steps = [event_to_dict(event) for event in events]
    return {"method": method, **told, "events": steps, "guarantee": guarantee, "attack": attack}


def _rates(events: Sequence[Event]) -> dict[str, float]:
    """Upper limits on what share of members any attack finds, by its rate of false alarms."""
    return {f"{rate:g}": dpt.accounting.true_positive_rate(events, rate) for rate in _RATES}


def show_events(events: Sequence[Event]) -> None:
    """One line per noisy step."""
    if not events:
        say("No private row is used: there is no noisy step, and nothing is spent.")
        return
    rows = [(str(n), event.label, *event.table_row()) for n, event in enumerate(events[:_MOST], start=1)]
    if len(events) > _MOST:
        rows.append(("", f"and {len(events) - _MOST} more", "", ""))
    show_table(("#", "Releases", "Noise", "Detail"), rows, numbers=(0,))


def attack_sentence(events: Sequence[Event]) -> str:
    """The attacker's view in words; percentages are rounded up."""
    rates = _rates(events)
    replaced = bool(events) and events[0].relation is Relation.REPLACE_ONE
    attack = "attack that tells members from their replacements" if replaced else "membership attack"
    who = "members" if not events or events[0].unit is Unit.ROW else "the people in the data"
    found = [f"{rounded_up(100 * top, 3)}% of {who} at {100 * float(rate):g}%" for rate, top in rates.items()]
    return f"any {attack} finds at most {found[0]} false alarms, and {found[1]}"


def show_charge(
    book: dpt.Ledger,
    head: str | None,
    promise: tuple[str, Guarantee, Sequence[Event]] | None,
    told: lib.JsonObject,
    facts: Mapping[str, object],
    *,
    as_json: bool,
) -> None:
    """What was charged and what came of it: noisy steps, account and facts for people, or JSON.

    Args:
        book: where it was charged.
        head: of the charge.
        promise: what it was for, what it promises, and its noisy steps, where these are all its own.
        told: what the JSON tells besides; people are told its statement, and whether it is seeded.
        facts: what people are told besides.
        as_json: whether it is for a program.
    """
    charge, account = book.charge_of(head)
    if as_json:
        entry = {"path": book.path, "entry": charge.number, "head": charge.hash}
        own = {} if promise is None else privacy_json(*promise)
        return show_json({**own, **told, "ledger": entry, "account": summary_json(account)})
    if promise is not None:
        show_events(promise[2])
        say()
    charged = f"{account.dataset}, entry {charge.number} of the ledger {book.path}"
    show_facts({"Charged": charged, "Account": account.sentence, **facts})
    if "statement" in told:
        say(told["statement"])
    if told.get("seeded"):
        say("NOT PRIVATE, DO NOT PUBLISH: the noise came from a seed.", style="bold red")


def summary_json(summary: lib.DatasetSummary) -> lib.JsonObject:
    """One data set's account."""
    told = vars(summary.dataset) | vars(summary)
    return {name: value for name, value in told.items() if name != "dataset"}
