"""`dptransfer methods`: what there is to choose from, in the methods' own words."""

from __future__ import annotations

import re
from inspect import cleandoc
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dptransfer.cli import options
from dptransfer.cli.pictures import sees_pictures
from dptransfer.cli.screen import say, show_facts, show_json, show_table

if TYPE_CHECKING:
    from dptransfer.methods import PrivateMethod


def methods(
    name: Annotated[str | None, typer.Argument(help="One of them, for its settings.")] = None,
    as_json: options.AsJson = False,
) -> None:
    """List the methods, including those of installed packages, or show the settings of one.

    Example: dptransfer methods top-k
    """
    from dptransfer.methods import METHODS

    if name is not None:
        return _tell(_facts(METHODS.find(name)), as_json)
    found = [_facts(method) for method in METHODS.values()]
    if as_json:
        show_json(found)
    else:
        families = list(dict.fromkeys(one["family"] for one in found))
        found.sort(key=lambda one: families.index(one["family"]))
        rows = [(one["name"], one["summary"]) for one in found]
        show_table(("Method", "What it releases, and when to use it"), rows)
    for problem in METHODS.problems:
        say(problem, style="yellow", err=True)


def _tell(facts: dict[str, Any], as_json: bool) -> None:
    if as_json:
        return show_json(facts)
    settings = facts.pop("settings").items()
    show_facts({name.capitalize(): value for name, value in facts.items() if value})
    say()
    rows = [(name, "" if one["default"] is None else one["default"], one["about"]) for name, one in settings]
    show_table(("--set", "Default", ""), rows)
    if not facts["takes"].startswith("pictures"):
        say("Feature map: --set axes=64 keeps 64 public axes; --set pool=4 averages 4 columns into one.")


def _facts(method: type[PrivateMethod]) -> dict[str, Any]:
    """What a method says of itself, with its settings and their defaults."""
    from dptransfer.methods.parts import alternatives
    from dptransfer.named import setting_names

    about, plain = method.about, method(**{})
    settings = setting_names(plain)
    takes = "pictures" if sees_pictures(plain) else "rows of an encoder"
    words = _documented(method)
    for name in {setting.partition(".")[0] for setting in settings if "." in setting}:
        for part in alternatives(method, name):
            words |= {f"{name}.{field}": said for field, said in _documented(part).items()}
    words |= about.options
    return {
        "name": method.name,
        "family": about.family,
        "takes": takes + (", and public ones" if plain.needs_public else ""),
        "summary": about.summary,
        "released": about.card,
        "reference": about.reference,
        "settings": {
            setting: {"default": _default(plain, setting), "about": words.get(setting, "")}
            for setting in settings
        },
    }


def _documented(method: type) -> dict[str, str]:
    """What the docstrings of a class and its bases say of each field, under "Attributes:"."""
    found: dict[str, str] = {}
    for one in reversed(method.__mro__):
        listed = cleandoc(one.__doc__ or "").partition("Attributes:\n")[2]
        for name, words in re.findall(r"^    (\w+): (.*(?:\n {8}.*)*)", listed, re.MULTILINE):
            said = " ".join(words.replace("`", "").split())
            found[name] = said[0].upper() + said[1:] if said[:2].isalpha() else said  # 'β: length' stays
    return found


def _default(value: Any, setting: str) -> Any:
    """The default of a setting; of a part, which kind it is."""
    for name in setting.split("."):
        value = getattr(value, name, None)
    return getattr(value, "kind", value)
