"""The module for authors of plug-ins: what it lists is there, is what it says, and is enough for the page."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

from dptransfer import extensions
from test_exports import shown_to_checkers

PAGE = (Path(__file__).parents[1] / "docs" / "adding-a-method.md").read_text()


def test_every_name_is_there_and_type_checkers_see_the_same():
    assert shown_to_checkers("dptransfer.extensions") == extensions._PLACES
    assert set(dir(extensions)) == set(extensions.__all__) == extensions._PLACES.keys()
    for name in extensions.__all__:
        assert getattr(extensions, name).__name__ == name
    with pytest.raises(AttributeError):
        extensions.nonsense  # noqa: B018


def test_nothing_is_imported_before_it_is_used():
    code = "import sys, dptransfer.extensions; print('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "False\n"


def test_the_page_for_authors_needs_no_other_module():
    """Its files import from this module and from the checks; what uses them is a user like any other."""
    code = "\n".join(re.findall(r"^```python\n(.*?)^```$", PAGE, re.M | re.S))
    imported = {
        node.module
        for node in ast.walk(ast.parse(code))
        if isinstance(node, ast.ImportFrom) and node.module.startswith("dptransfer")
    }
    assert imported == {"dptransfer.extensions", "dptransfer.testing"}
