"""`dptransfer card`, `verify`, `export` and `push`: read a release, check it, and pass it on."""

from __future__ import annotations

import json
from enum import Enum
from pathlib import Path
from typing import Annotated

import typer
from typer import Argument, Option

import dptransfer as dpt
from dptransfer import release
from dptransfer.cli import lib, options
from dptransfer.cli.ledger_commands import entry_of_release
from dptransfer.cli.screen import console, on_terminal, say, show_json, show_result, show_table
from dptransfer.errors import ArgumentError
from dptransfer.privacy import Relation, Unit, number, rounded_up


class CardFormat(Enum):
    """How the card is printed."""

    TEXT = "text"
    MARKDOWN = "markdown"
    JSON = "json"
    HTML = "html"


_BY_NAME = {".md": CardFormat.MARKDOWN, ".json": CardFormat.JSON, ".html": CardFormat.HTML}


def card(
    model: options.Release,
    form: Annotated[CardFormat | None, Option("--format", "-f", help="Default by --out, else text.")] = None,
    out: Annotated[Path | None, Option("--out", "-o", help="A file to write instead.")] = None,
    title: options.Title = None,
    contact: options.Contact = None,
    license: options.License = None,
    as_json: options.AsJson = False,
    show: Annotated[bool, Option("--open", help="Open the page in a browser instead.")] = False,
    registry: Annotated[Path | None, Option(help="YAML to write: an entry for OpenDP's registry.")] = None,
    dpia: Annotated[Path | None, Option(help="Markdown to write, for an impact assessment.")] = None,
) -> None:
    """Print the privacy card of a release.

    With --title, --contact or --license the words are put on the card first; it stays verifiable.

    Example: dptransfer card model/ --open
    """
    if registry is not None or dpia is not None:
        return _write_papers(model, registry, dpia)
    form = form or _BY_NAME.get("" if out is None else out.suffix.lower(), CardFormat.TEXT)
    if form is CardFormat.HTML and out is None and not show and on_terminal():
        raise ArgumentError("An HTML page is for a browser. Pass --open, or --out card.html.")
    if out is not None:
        options.require_new(out)
    if any(text is not None for text in (title, contact, license)):
        release.amend_release(model, title=title, contact=contact, license=license)
    made = release.card_of(dpt.load(model), release.read_evaluation(model))
    if show:
        typer.launch((model / "card.html").resolve().as_uri())
        return
    if as_json or form is CardFormat.JSON:
        if out is None:
            return show_json(made.to_dict())
        text = json.dumps(made.to_dict(), indent=2, ensure_ascii=False) + "\n"
    elif form is CardFormat.TEXT:
        text = made.text(min(console().width, 100), colour=out is None and on_terminal())
    else:
        text = made.markdown() if form is CardFormat.MARKDOWN else made.html()
    if out is None:
        typer.echo(text, nl=False)
        if form is CardFormat.TEXT and (charged := entry_of_release(model)) is not None:
            say(charged, err=True)  # beside the card: it is for the owner
    else:
        lib.write_whole(out, text.encode())
        say(f"Written: {out}")


def _write_papers(model: Path, registry: Path | None, dpia: Path | None) -> None:
    """An entry for a registry and paragraphs for an assessment, where they are asked for."""
    released = dpt.load(model)
    for out, write in ((registry, lib.registry_yaml), (dpia, lib.assessment_paragraphs)):
        if out is not None:
            options.require_new(out)
            lib.write_whole(out, write(released).encode())
            say(f"Written: {out}. Fill in what only you know.")


_UNCHECKED = "Files and arithmetic hold. Verify the rest with the version that wrote it, or read its method."


def verify(model: options.Release, as_json: options.AsJson = False) -> None:
    """Recompute ε, plan the steps again and check every file.

    Exit code 1 if a check fails; 3 if none does but not everything could be checked.

    Example: dptransfer verify model/ --json
    """
    found = dpt.verify(model)
    if as_json:
        show_json(found.to_dict())
    else:
        marks = ["ok" if one.passed else "FAILED" if one.required else "note" for one in found.checks]
        checks = zip(marks, found.checks, strict=True)
        show_table(("", "Check", "Found"), [(mark, one.name, one.detail) for mark, one in checks])
        say()
        epsilon, delta = rounded_up(found.epsilon or 0.0), number(found.delta or 0.0)
        neighbours = Relation(found.relation).words(Unit(found.unit)) if found.relation else ""
        promise = f"'{found.method}', epsilon {epsilon} at delta {delta}, {neighbours}"
        if found.outcome == "verified":
            say(f"Verified: {promise}.", style="green")
        elif found.outcome == "failed":
            say(f"NOT verified: {', '.join(found.failures)}. Do not rely on this release.", style="bold red")
        else:
            unchecked = ", ".join(f"{name} NOT checked" for name in found.missing_checks)
            say(f"NOT verified, {unchecked}: {promise}. {_UNCHECKED}", style="bold yellow")
        for one in found.checks:
            if one.name.startswith("promise") and not one.passed and not one.required:
                say(f"Warning: {one.detail}", style="yellow")
        say(f"Not checkable, so the publisher's word: {'; '.join(found.publishers_word)}.")
        say(found.not_shown)
        if (charged := entry_of_release(model)) is not None:
            say(charged)
    if not found.ok:
        raise typer.Exit(1 if found.failures else 3)


def export(
    model: options.Release,
    onnx: Annotated[Path, Option(help="The ONNX file to write.")],
    overwrite: options.Overwrite = False,
    unsafe: options.Unsafe = False,
    as_json: options.AsJson = False,
) -> None:
    """Write a release as an ONNX graph.

    Rows in; scores, probabilities (calibrated where the model is) and label positions out.
    It costs no privacy.

    Example: dptransfer export model/ --onnx model.onnx
    """
    released = dpt.load(model)
    if onnx.is_dir() or (onnx.exists() and not overwrite):
        raise ArgumentError(f"--onnx must name a new file; '{onnx}' exists. Choose another, or --overwrite.")
    digest = release.release_digest(model)
    written = release.export_onnx(released, onnx, digest=digest, unsafe_for_publication=unsafe)
    delta = released.encoder_delta  # of the release's own encoder; the graph holds the classifier alone
    whose = "" if delta is None else f" of {delta.base.name} as this release changes it; not in the graph"
    facts = {"written": written, "input": f"rows (n, {released.dimension}){whose}"}
    facts["outputs"] = f"scores and probabilities (n, {len(released.classes)}), label_index (n)"
    facts["guarantee"] = str(released.guarantee)
    show_result(facts, as_json=as_json, classes=list(released.classes))


def push(
    model: options.Release,
    repository: Annotated[str, Argument(metavar="OWNER/NAME", help="Repository on the Hugging Face hub.")],
    public: Annotated[bool, Option("--public", help="Let everybody read it; default only you.")] = False,
) -> None:
    """Upload a release to the Hugging Face hub, if it verifies.

    Others use its name in place of a directory: dptransfer verify hf:OWNER/NAME. Only the files of the
    release are uploaded. The card becomes the page of the repository. Log in first: hf auth login.

    Example: dptransfer push model/ OWNER/NAME --public
    """
    found = dpt.verify(model)
    if not found.ok:
        raise ArgumentError("A release that is pushed must verify; this one does not. Run: dptransfer verify")
    say(f"Pushed: {release.push_release(model, repository, public=public)}")
