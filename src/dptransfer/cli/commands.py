"""Groups of commands: help at once, errors in one line, and the commands of installed plug-ins.

A command is a file of this package, or comes from another with an entry point in the group
`dptransfer.commands`: the command's name, and a `typer.Typer` or a function with typer's annotations. It is
loaded when it is asked for, or listed in the help; one that cannot be loaded says so itself and leaves the
others alone.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from typing import Any

import typer
from typer.core import TyperGroup

from dptransfer.base.plugins import Registry
from dptransfer.cli.failures import one_line, one_line_warnings, printable, say_marked
from dptransfer.cli.stopped import exit_code_of
from dptransfer.errors import ArgumentError, DPTransferError, nearest

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


_UsageError: Any = typer.BadParameter.__mro__[1]  # typer keeps its name to itself
# Commands that come with a package of their own.
_ELSEWHERE = {"demo": "dptransfer[demo]", "bench": "dptransfer[lab]"}
_WHOM = ("--person", "--unit")


class Group(TyperGroup):
    """A group whose help is there at once, and which names the command that was meant."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Its options, of which switches show no type in the help."""
        return _switches_untyped(super().get_params(ctx))

    def get_help_option(self, ctx: Any) -> Any:
        """The group's own `--help`, which is off unless it is given.

        Typer leaves it undecided, and loads pydantic, a third of the whole time, to find out what that means
        for a switch.
        """
        option = super().get_help_option(ctx)
        if option is not None and option.default is None:
            option.default = False
        return option

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command that is asked for; the nearest name if there is none such."""
        if self.get_command(ctx, args[0]) is None and not args[0].startswith("-"):
            meant = nearest(args[0], self.list_commands(ctx), f"See: {ctx.command_path} --help")
            ctx.fail(f"there is no command '{args[0]}'. {meant}")
        name, command, rest = super().resolve_command(ctx, args)
        if command is not None:
            _switches_untyped(command.get_params(ctx))
            command.help = _flowing(command.help)
            if not isinstance(command, TyperGroup):
                how = {"info_name": name, "parent": ctx, **command.context_settings}
                _require_once(command.context_class(command, **how), rest)
        return name, command, rest


def _switches_untyped(options: list[Any]) -> list[Any]:
    """Typer's help says <bool> beside a switch, as if it took a value."""
    for option in options:
        if getattr(option, "is_flag", False):
            option.metavar = ""
    return options


def _flowing(words: str | None) -> str | None:
    """Paragraphs that are as wide as the terminal, whatever the width of the lines they were written in."""
    if words is None:
        return None
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in words.split("\n\n"))


def _require_once(context: Any, words: list[str]) -> None:
    """Refuse two answers to whom the promise is made; of other options the last counts, as everywhere."""
    _, _, given = context.command.make_parser(context).parse_args(list(words))
    for option in given:
        if option.opts[0] in _WHOM and given.count(option) > 1:
            context.fail(f"{option.opts[0]} takes one value; it is given {given.count(option)} times")


def _command(name: str, found: Any, **how: Any) -> Any:
    """Typer's command of a function or a group, whose own class of groups, if it has one, stays."""
    holder = typer.Typer()
    if isinstance(found, typer.Typer):
        own = found.info.cls
        holder.add_typer(found, name=name, cls=own if isinstance(own, type) else Group)
    else:
        holder.command(name=name, **how)(found)
    return typer.main.get_group(holder).commands[name]


_STORY = (
    "methods", "check", "plan", "encode", "fit", "predict", "evaluate", "attack", "card", "verify", "export",
)  # fmt: skip
_OWN = {name: f"dptransfer.cli.{name}:{name}" for name in _STORY}
_OWN |= {name: f"dptransfer.cli.{name}:app" for name in ("encoder", "pate", "ledger")}
_COMMANDS: Registry[Any] = Registry("command", "dptransfer.commands", _OWN, _command)


def _broken(name: str, problem: Exception) -> Any:
    """A command in the place of one that does not load, which says so."""

    def fail() -> None:
        raise problem

    anything = {"allow_extra_args": True, "ignore_unknown_options": True}
    return _command(name, fail, help=f"Broken: {problem}", context_settings=anything)


class Commands(Group):
    """All commands, with the plug-ins'; expected errors are one line, `--debug` shows the traceback."""

    def list_commands(self, ctx: Any) -> list[str]:
        """The library's own in the order of the story, then those of plug-ins."""
        return list(_COMMANDS.names)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command of that name, made when it is first asked for."""
        if cmd_name not in self.commands:
            try:
                self.commands[cmd_name] = _COMMANDS[cmd_name]
            except ArgumentError as problem:
                self.commands[cmd_name] = _broken(cmd_name, problem)
            except KeyError:
                if cmd_name not in _ELSEWHERE:
                    return None
                needs = f"needs a package that is not installed: pip install '{_ELSEWHERE[cmd_name]}'"
                raise ArgumentError(f"'dptransfer {cmd_name}' {needs}") from None
        return self.commands[cmd_name]

    def main(self, *given: Any, **how: Any) -> Any:
        """Run, and leave with an exit code; a command line that cannot be read is one line as well."""
        words = list(sys.argv[1:] if how.get("args") is None else how["args"])
        try:
            outcome = super().main(*given, **{**how, "standalone_mode": False})
        except _UsageError as problem:
            if type(problem).__name__ != "NoArgsIsHelpError":  # whose help has been shown
                typer.echo(usage_line(problem, words, self), err=True)
            sys.exit(problem.exit_code)
        except typer.Abort as problem:  # while the command line was read
            stopped = problem.__cause__
            sys.exit(exit_code_of(stopped) if isinstance(stopped, KeyboardInterrupt) else 130)
        sys.exit(outcome or 0)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Take `--debug` from wherever it stands."""
        kept = [word for word in args if word != "--debug"]
        return super().parse_args(ctx, ["--debug"] * (len(kept) < len(args)) + kept)

    def invoke(self, ctx: Any) -> Any:
        """Run the command; say what went wrong, if something did."""
        try:
            with one_line_warnings():
                return super().invoke(ctx)
        except BrokenPipeError:
            raise  # the reader of our output is gone; typer leaves quietly
        except (DPTransferError, OSError, MemoryError, KeyboardInterrupt) as problem:
            if ctx.params.get("debug"):
                import traceback

                typer.echo(traceback.format_exc(), err=True)
            say_marked("Error: ", "red", one_line(problem, ctx.invoked_subcommand))
            code = exit_code_of(problem) if isinstance(problem, KeyboardInterrupt) else 2
            raise typer.Exit(code) from None
