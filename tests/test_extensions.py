"""The module for authors of plug-ins: what it lists is there, is what it says, and is enough for the page."""

import ast
import re
from pathlib import Path

from dptransfer import extensions
from dptransfer.methods import about

PAGE = (Path(__file__).parents[1] / "docs" / "how-to" / "adding-a-method.md").read_text()


def test_every_name_is_that_of_what_it_stands_for():
    types_of_settings = vars(about)
    for name in extensions.__all__:
        found = getattr(extensions, name)
        assert found.__name__ == name or found is types_of_settings[name]


def test_the_page_for_authors_needs_no_other_module():
    """Its files import from this module and from the checks; what uses them is a user like any other."""
    code = "\n".join(re.findall(r"^```python\n(.*?)^```$", PAGE, re.M | re.S))
    imported = {
        node.module
        for node in ast.walk(ast.parse(code))
        if isinstance(node, ast.ImportFrom) and node.module.startswith("dptransfer")
    }
    assert imported == {"dptransfer.extensions", "dptransfer.testing"}
