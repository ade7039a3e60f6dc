"""A command line that cannot be read, in one line: the rule, what was found, and an example that works."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from dptransfer.cli.failures import printable

_METHOD = "k axes pool mechanism lowest highest noise_multiplier steps clip sampling_rate start mean_trials"
_DATA = "size class_counts split labels"
_ENCODE = "an option of 'dptransfer encode': encode first, then fit the .emb folder"
_MOVED = {  # options of `fit` and `plan` in version 0.2, and what they are called since
    **{"--" + field.replace("_", "-"): f"--set {field}=" for field in _METHOD.split()},
    **{"--" + field.replace("_", "-"): f"--set data.{field}=" for field in _DATA.split()},
    **{f"--{currency}": f"--budget {currency}=" for currency in ("rho", "mu")},
    "--tune-on-public": "--set tune_on_public=true",
    "--new-data-set": "--set data.new_data_set=true",
    "--strict-names": "--set data.strict_names=true",
    "--batch": _ENCODE,
    "--allow-unreadable": _ENCODE,
}
_MOVED_FROM = ("dptransfer fit", "dptransfer plan", "dptransfer ledger budget")
_KINDS = {"float": "a number", "int": "a whole number", "integer": "a whole number"}


def usage_line(problem: Any, words: Sequence[str], root: Any) -> str:
    """What is wrong with the command line, and what to type instead.

    Args:
        problem: typer's usage error.
        words: the whole command line.
        root: the command it was given to.
    """
    context = getattr(problem, "ctx", None)
    path, command = _addressed(words, root) if context is None else (context.command_path, context.command)
    return printable(f"{path}: {_told(problem, words, path, command)}")


def _told(problem: Any, words: Sequence[str], path: str, command: Any) -> str:
    look = f"See: {path} --help"
    example = re.search(r"Example: (.+)", command.help or "")

    def for_example(option: str) -> str:
        found = re.search(rf"(?<!\S){option} [^\s\[]+", example[1] if example else "")
        return f"Example: {found[0]}" if found else look

    kind = type(problem).__name__
    parameter: Any = getattr(problem, "param", None)
    spellings = [problem.option_name] if hasattr(problem, "option_name") else getattr(parameter, "opts", [""])
    option, given = spellings[0], _given(words, spellings)
    if kind == "NoSuchOption" and path in _MOVED_FROM and option in _MOVED:
        now, value = _MOVED[option], "VALUE" if given is None or given.startswith("--") else given
        told = f"{option} {value} is now {now}{value}" if now.endswith("=") else f"{option} is now {now}"
        return f"{told}; the side of pictures is --image-size" if option == "--size" else told
    if kind == "NoSuchOption":
        close = problem.possibilities or ()  # nearest first
        return f"there is no option {option}. {f'Did you mean {close[0]}?' if close else look}"
    if kind == "MissingParameter" and parameter.param_type_name == "argument":
        return f"{parameter.name.upper()} is missing. {example[0] if example else look}"
    if kind == "MissingParameter":
        return f"{option} is missing. {for_example(option)}"
    if kind == "BadOptionUsage" and "not take" in problem.message:
        return f"{option} is a switch and takes no value. Give it alone."
    if kind == "BadOptionUsage":
        return f"{option} takes a value; there is none. {for_example(option)}"
    if kind == "BadParameter" and parameter is not None:
        got = "" if given is None else f"; got '{given}'"
        return f"{option} {_rule(parameter, problem.message)}{got}. {for_example(option)}"
    if example and not any(one.param_type_name == "argument" for one in getattr(command, "params", ())):
        look = example[0]  # a path that is given to a command without any is no matter of spelling
    said = re.sub(r"Got unexpected .* \((.*)\)", r"too many words: \1", str(problem.format_message()))
    return said if "See: " in said or said.endswith("?") else f"{said.rstrip('.')}. {look}"


def _addressed(words: Sequence[str], root: Any) -> tuple[str, Any]:
    """The command that the words lead to, with its whole name."""
    path, command = ["dptransfer"], root
    for word in words:
        inner = command.get_command(None, word) if hasattr(command, "get_command") else None
        if inner is not None:
            path, command = [*path, word], inner
    return " ".join(path), command


def _given(words: Sequence[str], spellings: Sequence[str]) -> str | None:
    """The value that an option has on the command line; of several the last."""
    found = None
    for place, word in enumerate(words):
        name, equals, value = word.partition("=")
        if name in spellings:
            found = value if equals else (*words, None)[place + 1]
    return found


def _rule(parameter: Any, message: str) -> str:
    """What the parameter takes; typer's own words where they say more."""
    described = getattr(parameter, "type_descriptor", None) or getattr(parameter, "type", None)
    choices = [str(getattr(choice, "value", choice)) for choice in getattr(described, "choices", None) or ()]
    if choices:
        return f"takes {', '.join(choices[:-1])} or {choices[-1]}"
    kind = getattr(getattr(described, "annotation", None), "__name__", getattr(described, "name", ""))
    least = re.search(r"(?:greater than or equal to |x>=)([\d.]+)", message)
    if kind in _KINDS and (least or "valid" in message):
        return f"takes {_KINDS[kind]}{f' of at least {least[1]}' if least else ''}"
    return f"must be usable: {message[:1].lower()}{message[1:].rstrip('.')}"
