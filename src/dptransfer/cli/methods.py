"""`dptransfer methods`: what can be fitted, in each method's own words, and what can be set."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Annotated, Any

import typer

from dptransfer.cli import options
from dptransfer.cli.screen import say, show_facts, show_json, show_table


def methods(
    method: Annotated[str | None, typer.Argument(help="One of them, or package.module:Class.")] = None,
    as_json: options.AsJson = False,
) -> None:
    """List the methods, or what can be set on one of them.

    Example: dptransfer methods noisy-gd
    """
    from dptransfer.methods import METHODS

    if method is not None:
        return _show_one(METHODS.find(method), as_json)
    found = [METHODS[name] for name in METHODS]
    if as_json:
        return show_json([_words(kind) for kind in found])
    rows = []
    for family in dict.fromkeys(kind.about.family for kind in found):
        listed = [(kind.name, kind.about.summary) for kind in found if kind.about.family == family]
        rows += [("", f"{family}:"), *listed]
    show_table(("Method", "What for"), rows)
    for problem in METHODS.problems:
        say(problem, style="yellow", err=True)
    say("Settings of one: dptransfer methods NAME")


def _show_one(kind: Any, as_json: bool) -> None:
    settings = [(name, value, kind.about.options.get(name, "")) for name, value in _settings(kind())]
    if as_json:
        listed = [{"setting": name, "default": value, "about": words} for name, value, words in settings]
        return show_json({**_words(kind), "settings": listed})
    show_facts({"Method": kind.name, "What for": kind.about.summary, "From": kind.about.reference or "-"})
    say()
    shown = [(name, "-" if value is None else value, words) for name, value, words in settings]
    show_table(("--set", "Default", ""), shown)
    if hasattr(kind(), "features"):
        say("Maps in front of it: --set axes=64 keeps so many public axes, --set pool=4 averages neighbours.")


def _words(kind: Any) -> dict[str, str]:
    about = {name: getattr(kind.about, name) for name in ("family", "summary", "reference")}
    return {"name": kind.name, **about}


def _settings(value: Any, within: str = "") -> Iterator[tuple[str, Any]]:
    """What can be set and its default; the settings of a part are reached with a dot."""
    for one in fields(value):
        held, name = getattr(value, one.name), within + one.name
        if one.init and is_dataclass(held):
            if hasattr(held, "kind"):  # the word that chooses it
                yield name, held.kind
            yield from _settings(held, f"{name}.")
        elif one.init:
            yield name, held
