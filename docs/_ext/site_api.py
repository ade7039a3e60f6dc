"""The API reference: `{public-names} MODULE` documents every name that a module exports, by autodoc."""

import importlib
import inspect
import re
from collections.abc import Mapping

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.util.docutils import SphinxDirective

_FIELDS = "Releases|Guarantee|Relation|Sensitivity|Assumes|Reference"
_FIELD = re.compile(rf"^({_FIELDS}):\s*(.*)$")


# Pages in this order: a name that two modules export is described where it comes first.
_ORDER = (
    "dptransfer",
    "dptransfer.methods",
    "dptransfer.extensions",
    "dptransfer.testing",
    "dptransfer.accounting",
    "dptransfer.data",
    "dptransfer.encoders",
    "dptransfer.errors",
    "dptransfer.features",
    "dptransfer.federation",
    "dptransfer.parallel",
    "dptransfer.privacy",
    "dptransfer.sklearn",
    "dptransfer.sources",
)


class PublicNames(SphinxDirective):
    """All exported names of a module: classes with their public methods, functions, values."""

    required_arguments = 1

    def run(self):
        """One entry for each name, and links to those that have theirs on another page."""
        name = self.arguments[0]
        lines, elsewhere = ["```{eval-rst}"], []
        for one, found in exported(name).items():
            home = next((m for m in _ORDER[: _place(name)] if _is_in(one, found, m)), None)
            if inspect.ismodule(found):
                continue
            if home:
                elsewhere.append(f":py:obj:`{one} <{home}.{one}>`")
            elif not inspect.isclass(found) and not callable(found):
                lines += [f".. py:data:: {name}.{one}", "", f"   {_value_in_words(found)}", ""]
            elif not inspect.isclass(found):
                lines += [f".. autofunction:: {name}.{one}", ""]
            elif issubclass(found, Exception):
                lines += [f".. autoexception:: {name}.{one}", "   :show-inheritance:", ""]
            else:
                lines += [f".. autoclass:: {name}.{one}", "   :members:", ""]
        if elsewhere:
            lines += [f"Exported here too, and described on other pages: {', '.join(elsewhere)}.", ""]
        node = nodes.section()
        text = StringList([*lines, "```"], source=name)
        self.state.nested_parse(text, self.content_offset, node, match_titles=True)
        return node.children


def exported(name):
    """What a module exports by name; of one without `__all__`, what it defines."""
    module = importlib.import_module(name)
    own = [one for one, found in vars(module).items() if getattr(found, "__module__", "") == name]
    wanted = getattr(module, "__all__", None) or [one for one in own if not one.startswith("_")]
    return {one: getattr(module, one) for one in sorted(wanted)}


def _place(name):
    return _ORDER.index(name)


def _is_in(one, found, module):
    return exported(module).get(one) is found


def _value_in_words(found):
    if isinstance(found, Mapping):
        return f"By name: {', '.join(f'``{one}``' for one in found)}."
    if isinstance(found, tuple):
        names = [str(getattr(one, "__name__", one)) for one in found]
        return f"In order: {', '.join(f'``{one}``' for one in names)}."
    return f"A ``{type(found).__name__}``."


_CODE = re.compile(r"(?<!`)`([^`]+?)`(?!`)(?=(\w?))")


def show_fields(app, what, name, found, options, lines):
    """Make a list of the six fields of queries, mechanisms and methods, and code of Markdown's backticks."""
    text, inside = [], False
    if what == "attribute" and lines:  # napoleon takes words before a colon for a type
        lines[0] = lines[0].replace(": ", " – ", 1)
    marked = _CODE.sub(lambda code: f"``{code[1]}``" + ("\\ " if code[2] else ""), "\n".join(lines))
    for line in marked.split("\n"):
        field = _FIELD.match(line)
        if field:
            inside = True
            text.append(f":{field[1]}: {field[2]}")
        elif inside and line.startswith("  "):
            text.append(f"    {line.strip()}")
        else:
            inside = inside and bool(line.strip())
            text.append(line)
    lines[:] = text


def setup(app):
    """Register the directive, and mend docstrings before napoleon reads them."""
    app.add_directive("public-names", PublicNames)
    app.connect("autodoc-process-docstring", show_fields, priority=400)
    return {"parallel_read_safe": True}
