"""The command-line reference: `{commands}` documents every command with its options, read off the program."""

import re

import typer
from docutils import nodes
from docutils.statemachine import StringList
from sphinx.util.docutils import SphinxDirective


class Commands(SphinxDirective):
    """All commands of `dptransfer`, in the groups of its help."""

    has_content = False

    def run(self):
        """A section for each command."""
        text = "\n".join(command_pages())
        node = nodes.section()
        self.state.nested_parse(
            StringList(text.splitlines(), source="dptransfer --help"),
            self.content_offset,
            node,
            match_titles=True,
        )
        return node.children


def command_pages():
    """Markdown about each command, group by group."""
    from dptransfer.cli.commands import _PANELS, app

    top = typer.main.get_command(app)
    context = typer.Context(top, info_name="dptransfer")
    for panel, names in _PANELS.items():
        yield from (f"## {panel}", "")
        for name in names.split():
            yield from _page(top.get_command(context, name), f"dptransfer {name}", context)


def _page(command, path, context):
    yield from (f"### {path}", "")
    text, _, example = (command.help or "").partition("Example: ")
    yield from (_escaped(" ".join(part.split())) + "\n" for part in text.split("\n\n") if part.strip())
    if example:
        yield from ("```sh", " ".join(example.split()), "```", "")
    if hasattr(command, "commands"):
        inner = typer.Context(command, info_name=path, parent=context)
        for name in command.list_commands(inner):
            yield from _page(command.get_command(inner, name), f"{path} {name}", inner)
        return
    rows = [row for one in command.params if not getattr(one, "hidden", False) for row in [_row(one)] if row]
    yield from ("| Option | Meaning |", "|---|---|", *rows, "")


def _row(option):
    if option.param_type_name == "argument":
        return (
            f"| `{(option.metavar or option.name).upper()}` | {_escaped(getattr(option, 'help', '') or '')} |"
        )
    names = ", ".join(f"`{name}`" for name in option.opts)
    return f"| {names} | {_escaped(option.help or '')} |"


def _escaped(text):
    """Markdown that shows these characters as they are, and options as code."""
    plain = re.sub(r"([*_<>|\[\]])", r"\\\1", text)
    return re.sub(r"--[a-z][a-z-]*", r"`\g<0>`", plain)


def setup(app):
    """Register the directive."""
    app.add_directive("commands", Commands)
    return {"parallel_read_safe": True}
