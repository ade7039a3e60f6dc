"""Groups of commands: help at once, errors in one line, and the commands of installed plug-ins.

A command is a file of this package, or comes from another with an entry point in the group
`dptransfer.commands`: the command's name, and a `typer.Typer` or a function with typer's annotations. It is
loaded when it is asked for, or listed in the help; one that cannot be loaded says so itself and leaves the
others alone. A parameter that is a dataclass is a group of options: a field is an option, and the command
gets the object.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import MISSING, fields, is_dataclass
from functools import wraps
from importlib import import_module
from inspect import Parameter as Argument
from inspect import Signature, signature
from typing import TYPE_CHECKING, Annotated, Any, cast, get_type_hints

import typer
from typer.core import TyperGroup, TyperOption

from dptransfer._version import __version__
from dptransfer.base.plugins import Registry
from dptransfer.cli.main import exit_code_of
from dptransfer.cli.screen import one_line, one_line_warnings, printable, say_marked
from dptransfer.errors import ArgumentError, DPTransferError, nearest

if TYPE_CHECKING:  # typer keeps these names to itself
    from typer._click.core import Command, Context, Parameter
    from typer._click.exceptions import UsageError
else:
    UsageError = typer.BadParameter.__mro__[1]


def usage_line(problem: UsageError) -> str:
    """Typer's usage error on one line, with an example of the command or where to find its help."""
    context = problem.ctx
    path = "dptransfer" if context is None else context.command_path
    text = printable(problem.format_message())
    if text.endswith("?"):  # it names what was meant
        return printable(f"{path}: {text}")
    example = None if context is None else re.search(r"Example: .+", context.command.help or "")
    return printable(f"{path}: {text.rstrip('.')}. {example[0] if example else f'See: {path} --help'}")


# Commands that come with a package of their own.
_ELSEWHERE = {"demo": "dptransfer[demo]", "bench": "dptransfer[lab]"}
_WHOM = ("--person", "--unit")
# Options that most fits need. The help shows them first and the others by group.
_FIRST = "--public --person --classes --epsilon --delta --holdout --method --set --name --out".split()


class Group(TyperGroup):
    """A group whose help is there at once, and which names the command that was meant."""

    def get_params(self, ctx: Context) -> list[Parameter]:
        """Its options, of which switches show no type in the help."""
        return _switches_untyped(super().get_params(ctx))

    def resolve_command(self, ctx: Context, args: list[str]) -> tuple[str | None, Command | None, list[str]]:
        """The command that is asked for; the nearest name if there is none such."""
        if self.get_command(ctx, args[0]) is None and not args[0].startswith("-"):
            meant = nearest(args[0], self.list_commands(ctx), f"See: {ctx.command_path} --help")
            ctx.fail(f"there is no command '{args[0]}'. {meant}")
        name, command, rest = super().resolve_command(ctx, args)
        if command is not None:
            _switches_untyped(command.get_params(ctx))
            if name == "fit":
                _essentials_first(command)
            paragraphs = (command.help or "").split("\n\n")  # as wide as the terminal, not as the source
            command.help = "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)
            if not isinstance(command, TyperGroup):
                how = {"info_name": name, "parent": ctx, **command.context_settings}
                if not ctx.resilient_parsing:  # a line that a shell completes is not whole yet
                    _require_once(command.context_class(command, **how), rest)
        return name, command, rest


def _switches_untyped(options: list[Parameter]) -> list[Parameter]:
    """Typer's help says <bool> beside a switch, as if it took a value.

    It leaves the default of `--help` undecided, and loads pydantic, a third of the whole time, to find out
    what that means for a switch.
    """
    for option in options:
        if getattr(option, "is_flag", False):
            option.metavar = ""
            option.default = option.default or False
    return options


def _essentials_first(command: Command) -> None:
    """Show what most people need in front, and what stands in no group with the output."""
    for option in command.params:
        if isinstance(option, TyperOption):
            first = option.opts[0] in _FIRST
            option.rich_help_panel = None if first else option.rich_help_panel or "Output and runs"
    command.params.sort(key=lambda one: [*_FIRST, one.opts[0]].index(one.opts[0]))


def _require_once(context: Context, words: list[str]) -> None:
    """Refuse two answers to whom the promise is made; of other options the last counts, as everywhere."""
    try:
        _, _, given = context.command.make_parser(context).parse_args(list(words))
    except UsageError as problem:
        problem.ctx = context  # typer's parser does not say which command it reads for
        raise
    for option in given:
        if option.opts[0] in _WHOM and given.count(option) > 1:
            context.fail(f"{option.opts[0]} takes one value; it is given {given.count(option)} times")


def expand_groups(command: Callable[..., object]) -> Callable[..., object]:
    """Replace each parameter that is a dataclass by an option for each field, or for its fields.

    >>> from dataclasses import dataclass
    >>> @dataclass
    ... class Size:
    ...     width: int
    ...     height: int = 2
    >>> def area(size: Size, times: int = 1) -> None:
    ...     print(size.width * size.height * times)
    >>> list(signature(expand_groups(area)).parameters)
    ['width', 'height', 'times']
    >>> expand_groups(area)(width=3, height=2, times=1)
    6
    """
    defaults = {name: one.default for name, one in signature(command).parameters.items()}
    hints = get_type_hints(command, include_extras=True)
    if not any(map(is_dataclass, hints.values())):
        return command

    @wraps(command)
    def run(**options: object) -> object:
        return command(**{name: _build(hints[name], name, options) for name in defaults})

    run.__annotations__ = {}
    found = [one for name, default in defaults.items() for one in _options(name, hints[name], default)]
    run.__dict__["__signature__"] = Signature(found)
    return run


def _options(name: str, kind: type, default: object) -> Iterator[Argument]:
    """The option of this name, or those of the group."""
    if not is_dataclass(kind):
        yield Argument(name, Argument.KEYWORD_ONLY, default=default, annotation=kind)
        return
    hints = get_type_hints(kind, include_extras=True)
    for one in fields(kind):
        default = Argument.empty if one.default is MISSING else one.default
        yield from _options(one.name, hints[one.name], default)


def _build(kind: type, name: str, options: dict[str, object]) -> object:
    """The value of this option, or an object of the group."""
    if not is_dataclass(kind):
        return options[name]
    hints = get_type_hints(kind)
    return kind(**{one.name: _build(hints[one.name], one.name, options) for one in fields(kind)})


def _command(name: str, found: typer.Typer | Callable[..., object], **how: Any) -> Command:
    """Typer's command of a function or a group, in its panel of the help."""
    holder = typer.Typer()
    how["rich_help_panel"] = _PANEL_OF.get(name, "From other packages")
    if isinstance(found, typer.Typer):
        for one in found.registered_commands:
            one.callback = expand_groups(one.callback) if one.callback else None
        own = found.info.cls
        holder.add_typer(found, name=name, cls=own if isinstance(own, type) else Group, **how)
    else:
        holder.command(name=name, **how)(expand_groups(found))
    return typer.main.get_group(holder).commands[name]


_PANELS = {  # of the help, in the order of the story
    "Start here": "demo app methods check plan",
    "Make a model": "encode encoder fit federate",
    "Use it": "predict evaluate serve page export push",
    "Account for it": "card verify ledger audit attack",
    "Research": "pate bench",
}
_PANEL_OF = {name: panel for panel, names in _PANELS.items() for name in names.split()}
_FILES = {  # of commands that share one, or are groups; else that of the same name
    "encode": "encode_commands:encode",
    "encoder": "encode_commands:app",
    "federate": "federate_commands:app",
    "evaluate": "evaluate_commands:evaluate",
    "attack": "evaluate_commands:attack",
    **{name: f"release_commands:{name}" for name in ("export", "push", "card", "verify")},
    "ledger": "ledger_commands:app",
    "pate": "pate_commands:app",
}
_NAMES = [name for name in _PANEL_OF if name not in _ELSEWHERE]
_OWN = {name: f"dptransfer.cli.{_FILES.get(name, f'{name}_command:{name}')}" for name in _NAMES}
COMMANDS = Registry("command", "dptransfer.commands", _OWN, _command)


def read_command(name: str, words: Sequence[str]) -> dict[str, Any]:
    """What one of the library's own commands would be called with, read by the command line's own parser.

    >>> read_command("predict", ["model", "a.png", "--top", "3"])["asked"].top
    3

    Raises:
        ArgumentError: the words are not such a command's.
    """
    module, _, function = _OWN[name].partition(":")
    command = getattr(import_module(module), function)

    @wraps(command)
    def given(**options: object) -> dict[str, object]:
        return options

    try:
        with _command(name, given).make_context(f"dptransfer {name}", list(words)) as context:
            return cast("dict[str, Any]", context.command.invoke(context))
    except UsageError as problem:
        raise ArgumentError(usage_line(problem)) from None


def run_command(name: str, words: Sequence[str]) -> int:
    """Run one of the library's own commands in this process; its errors are raised. Returns the exit code."""
    module, _, function = _OWN[name].partition(":")
    try:
        getattr(import_module(module), function)(**read_command(name, words))
    except typer.Exit as ended:
        return ended.exit_code
    return 0


def _broken(name: str, problem: Exception) -> Command:
    """A command in the place of one that does not load, which says so."""

    def fail() -> None:
        raise problem

    anything = {"allow_extra_args": True, "ignore_unknown_options": True}
    return _command(name, fail, help=f"Broken: {problem}", context_settings=anything)


class Commands(Group):
    """All commands, with the plug-ins'; expected errors are one line, `--debug` shows the traceback."""

    def list_commands(self, ctx: Context) -> list[str]:
        """The library's own in the order of the story, then those of plug-ins."""
        return list(COMMANDS.names)

    def get_command(self, ctx: Context, cmd_name: str) -> Command | None:
        """The command of that name, made when it is first asked for."""
        if cmd_name not in self.commands:
            try:
                self.commands[cmd_name] = COMMANDS[cmd_name]
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
        try:
            outcome = super().main(*given, **{**how, "standalone_mode": False})
        except UsageError as problem:
            if type(problem).__name__ != "NoArgsIsHelpError":  # whose help has been shown
                typer.echo(usage_line(problem), err=True)
            sys.exit(problem.exit_code)
        except typer.Abort as problem:  # while the command line was read
            sys.exit(exit_code_of(problem.__cause__ or KeyboardInterrupt()))
        sys.exit(outcome or 0)

    def parse_args(self, ctx: Context, args: list[str]) -> list[str]:
        """Take `--debug` from wherever it stands."""
        kept = [word for word in args if word != "--debug"]
        return super().parse_args(ctx, ["--debug"] * (len(kept) < len(args)) + kept)

    def invoke(self, ctx: Context) -> object:
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
            raise typer.Exit(exit_code_of(problem)) from None


_HELP: dict[str, Any] = {"no_args_is_help": True, "context_settings": {"help_option_names": ["-h", "--help"]}}
app = typer.Typer(name="dptransfer", cls=Commands, pretty_exceptions_enable=False, **_HELP)


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"dptransfer {__version__}")
        raise typer.Exit


@app.callback()
def dptransfer(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_version, is_eager=True)
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
) -> None:
    """Private labelled examples and a public encoder to a classifier with a true privacy guarantee.

    Example: dptransfer plan --epsilon 1 --delta 1e-5 --classes 10 --dim 1280
    """
