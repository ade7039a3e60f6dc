"""`dptransfer evaluate` and `attack`: how well a release does, and what it tells of who was fitted on."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

import dptransfer as dpt
from dptransfer.cli import charges, lib, options
from dptransfer.cli.screen import say, show_document, show_json, show_table
from dptransfer.errors import ArgumentError, ReleaseError
from dptransfer.privacy import Unit

if TYPE_CHECKING:
    from dptransfer.audit.membership import MembershipResult

_MOST_CONFUSIONS = 10
_WIDEST = 12
_private = partial(Option, rich_help_panel="Private tests")


@dataclass(frozen=True)
class AttackOptions:
    """How a release is attacked with its members and others."""

    encoder: options.ModelEncoder
    person: Annotated[str | None, Option(metavar="COLUMN|folder|dicom", help="Whose each is.")] = None
    public: Annotated[Path | None, Option(help="Labelled public rows: add a likelihood-ratio attack.")] = None


@dataclass(frozen=True)
class PrivateTest:
    """A test that protects its rows: what it costs, and which account pays."""

    budget: options.BudgetOptions
    private: Annotated[bool, _private("--private", help="Protect the rows: a charge, noisy results.")] = False
    person: options.Person = None
    name: options.DataSetName = None
    ledger: options.LedgerFile = None
    settings: options.DataAssignments = None


def evaluate(
    model: options.Release,
    test: Annotated[Path, Argument(help="Labelled rows (.emb, .npz, ...), images or texts.")],
    columns: options.ColumnOptions,
    encoder: options.ModelEncoder,
    charge: PrivateTest,
    split: Annotated[str | None, options.data(help="Which split of the file, if it has several.")] = None,
    labels: Annotated[Path | None, options.data(help="An .npy file of labels, for rows without.")] = None,
    add_to_card: Annotated[
        bool, Option("--add-to-card", help="Write the results on the card; the test rows stay unprotected.")
    ] = False,
    as_json: options.AsJson = False,
) -> None:
    """Test a release on labelled rows, which stay unprotected unless the test is --private.

    With --private the test charges the rows' account in the ledger once. Its noisy results go on the card,
    with intervals that cover sampling and noise. The default delta is that of the release, or 1e-5.
    Without --private, rows that your ledger knows as private are refused, for example those of the fit, and
    so are other rows of the same pictures or texts. The card shows the size of the test set only with
    --set data.test_is_public=true.

    Example: dptransfer evaluate model/ test.emb --private --epsilon 0.2
    """
    released = dpt.load(model)
    source = dpt.Source(test, labels, columns=columns.columns(split=split))
    if charge.private:
        if add_to_card or (encoder.device != "cpu" and source.is_encoded):
            raise ArgumentError("Leave out --add-to-card and --device: this test is --private.")
        return _evaluate_privately(model, released, source, encoder, charge, as_json=as_json)
    of_method, about = options.settings_of(charge.settings, options.ABOUT_TEST)
    if of_method or charge.budget.has_amount or charge.person is not None or charge.name is not None:
        raise ArgumentError("A budget, --person, --name and --set are for a private test. Add --private.")
    source.require_there()
    loaded, path = None if source.is_encoded else encoder.load(released), charge.ledger
    tested, truth, whose = source.test(released.row_facts, loaded)
    book = dpt.Ledger.default_if_there() if path is None else charges.open_ledger(path, must_exist=True)
    how: dict[str, Any] = {"public": about.get("test_is_public", False)}
    how["new_data_set"] = about.get("new_data_set", False)
    device = encoder.scoring_device
    found = dpt.evaluate(released, tested, truth, name=whose, device=device, ledger=book, **how)
    if add_to_card:
        lib.amend_release(model, evaluation=found)
    if as_json:
        return show_json({**found.to_dict(), "statement": found.statement, "added_to_card": add_to_card})
    show_document(lib.results_summary(found, most=None))
    say()
    _show_confusion(found)
    if found.minority_classes:
        say(f"Smallest quarter: {lib.name_list(found.minority_classes)}")
    say("With --private the test rows are protected, and results may be published.", style="yellow")
    if add_to_card:
        say(f"The card in '{model}' has these numbers now, and release.json the new checksums.")


def _evaluate_privately(
    path: Path,
    released: dpt.PrivateClassifier,
    source: dpt.Source,
    encoder: options.ModelEncoder,
    charge: PrivateTest,
    *,
    as_json: bool,
) -> None:
    """What can fail on public grounds fails before the charge; after it, numbers are shown in any case."""
    # Gaussian noise needs a delta; what was fit to publish will do.
    allowed = charge.budget.budget(released.guarantee.delta or options.DELTA)
    about = options.data_settings(charge.settings, options.ABOUT_DATA)
    book = charges.open_ledger(charge.ledger, strict_names=about.get("strict_names", False))
    if source.path is not None and source.is_encoded:
        options.note_open_folder(source.path)
    columns, reading = source.columns, dpt.encoders.Reading()
    if not source.is_encoded:
        reading = dpt.encoders.Reading(encoder.load(released))
    columns = replace(columns, split=about.get("split") if columns.split is None else columns.split)
    labels = about.get("labels") if source.y is None else source.y
    source = replace(source, people=charge.person, name=charge.name, declared=options.declared_from(about))
    source = replace(source, y=labels, columns=columns, reading=reading)
    with lib.EncodedBeside(path) as beside:
        rows = source.private(beside, of=released.row_facts)
        lib.require_room_for_results(released)
        charges.require_writable(path, overwrite=True)
        with charges.explain_interruption(book):
            found = dpt.methods.PrivateEvaluation(released).evaluate(
                rows, budget=allowed, ledger=book, new_data_set=about.get("new_data_set", False)
            )
    problem = None
    try:
        lib.amend_release(path, charged=found)
    except ReleaseError as caught:
        problem = caught
    told = {"test_data_protected": True, "statement": found.statement, **found.figures()}
    told["added_to_card"] = problem is None
    facts = {"Written": "nothing" if problem else f"{path}: its card and release.json"}
    promise = "evaluation", found.guarantee, found.events
    if not as_json:
        show_document(lib.results_summary(found, most=None))
        say()
    charges.show_charge(book, found.ledger_head, promise, told, facts, as_json=as_json)
    if problem is not None:
        raise ReleaseError(f"{problem} The charge stands: keep the numbers that were shown.")


def _show_confusion(found: lib.Evaluation) -> None:
    """The whole matrix where it fits; the most frequent mistakes otherwise."""
    import numpy as np

    confusion, classes = found.confusion or (), found.classes  # of a fresh evaluation it is always there
    if len(classes) <= _WIDEST:
        rows = [(name, *counts) for name, counts in zip(classes, confusion, strict=True)]
        header = ("True \\ predicted", *map(str, classes))
        return show_table(header, rows, numbers=range(1, len(header)))
    cells = ((count, *pair) for pair, count in np.ndenumerate(confusion) if count and pair[0] != pair[1])
    worst = sorted(cells, key=lambda mistake: -mistake[0])[:_MOST_CONFUSIONS]
    told = [(count, classes[true], classes[guess]) for count, true, guess in worst]
    show_table(("Rows", "True", "Predicted"), told, numbers=(0,))


def attack(
    model: options.Release,
    members: Annotated[Path, Option(help="Labelled rows or images that the release was fitted on.")],
    others: Annotated[Path, Option(help="Labelled rows or images of the same source, not fitted on.")],
    how: AttackOptions,
    as_json: options.AsJson = False,
) -> None:
    """Run a membership-inference attack on a release (owner only).

    The attack uses the model's loss. It prints the area under the curve and true positive rates at low false
    positive rates, each with an interval and with what the guarantee allows. It also tests whether the two
    sets differ without the model: then the comparison is unfair. The result is as private as the data.
    Images and texts are encoded with the model's own encoder; their rows are deleted afterwards.

    Example: dptransfer attack model/ --members private.emb --others test.emb
    """
    released = dpt.load(model)
    attacks = run_attacks(model, released, members, others, how)
    found = next(iter(attacks.values()))
    if as_json:
        more = {name: one.to_dict() for name, one in list(attacks.items())[1:]}
        return show_json({**found.to_dict(), "statement": found.statement, **more})
    show_document(lib.attack_document(attacks))
    if released.charged is not None and released.charged.holdout is not None:
        kept = f"each member was kept out of training with probability {released.charged.holdout:g}"
        say(f"Note: {kept}, and the release does not say who. Every attack then looks weaker.", err=True)


def run_attacks(
    model: Path, released: dpt.PrivateClassifier, members: Path, others: Path, how: AttackOptions
) -> dict[str, MembershipResult]:
    """Attacks on a release by name: by the loss, and with public rows also by shadow models."""
    dpt.Source(others).require_other_than(dpt.Source(members), "--others")
    by_person = released.guarantee.unit is Unit.PERSON
    if how.person is not None and not by_person:
        raise ArgumentError("--person is for releases that protect persons; this protects rows. Omit it.")
    people = how.person if by_person else lib.NOBODY
    sources = [dpt.Source(path, people=people) for path in (members, others)]
    for source in sources:
        source.require_there()
    if not all(source.is_encoded for source in sources):
        reading = dpt.encoders.Reading(how.encoder.load(released))
        sources = [one if one.is_encoded else replace(one, reading=reading) for one in sources]
    with lib.EncodedBeside(model) as beside:
        inside, outside = (_given(source, released, beside) for source in sources)
    found = {"Attack by the loss": lib.membership_attack(released, inside, outside)}
    if how.public is not None:
        shadows = lib.shadow_models(released, dpt.Source(how.public).public(classes=released.classes))
        name = f"Likelihood-ratio attack with {len(shadows)} shadow models"
        found[name] = lib.membership_attack(released, inside, outside, shadows=shadows)
    return found


def _given(source: dpt.Source, released: dpt.PrivateClassifier, beside: lib.EncodedBeside) -> lib.Given:
    """Rows and classes and, for a release that protects persons, whose each row is."""
    facts = released.row_facts
    rows = source.private(beside, of=facts)
    labelled = lib.Labelled(rows.labels, facts.classes)
    if facts.unit is Unit.ROW:
        return rows.rows, labelled
    if rows.people is None:
        alone = "each counts as a person of its own. Name the column of people with --person"
        say(f"Note: '{source.path}' does not say whose its rows are; {alone}.", err=True)
    return rows.rows, labelled, rows.people
