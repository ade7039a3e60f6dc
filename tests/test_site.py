"""What the site makes of pages and code; `make docs` builds it and takes every warning for an error."""

import re
import sys
from pathlib import Path

import pytest
import typer

pytest.importorskip("sphinx")
DOCS = Path(__file__).parents[1] / "docs"
sys.path.insert(0, str(DOCS / "_ext"))

from site_api import _ORDER, exported  # noqa: E402
from site_commands import command_pages  # noqa: E402
from site_figures import _ABOUT, DRAWINGS, layers  # noqa: E402
from site_links import mended  # noqa: E402
from site_notebooks import notebook  # noqa: E402

from dptransfer.cli.commands import app  # noqa: E402


def test_links_that_leave_the_folder_lead_to_the_source_or_are_plain_text():
    page = DOCS / "how-to" / "data.md"
    text = (
        "[a](../../lab/README.md#x) [b](people.md) [c](#d) [e](https://example.org)\n```\n[f](../../g)\n```\n"
    )
    away = "[a](https://host/blob/main/lab/README.md#x)"
    rest = "[b](people.md) [c](#d) [e](https://example.org)\n```\n[f](../../g)\n```\n"
    assert mended(text, page, DOCS, "https://host") == f"{away} {rest}"
    assert mended(text, page, DOCS, None) == f"a {rest}"
    assert mended("[x](../../SECURITY.md)", page, DOCS, None) == "[x](/project/security.md)"


def test_a_page_that_includes_a_file_of_the_repository_speaks_from_its_place():
    found = mended("```{include} ../../SECURITY.md\n```\n", DOCS / "project" / "security.md", DOCS, None)
    assert "](/sharp-edges.md)" in found
    assert "](docs/" not in found


def test_every_command_is_in_the_reference():
    pages = "\n".join(command_pages())
    top = typer.main.get_command(app)
    own = [name for name in top.list_commands(None) if top.get_command(None, name)]
    assert own
    assert [name for name in own if f"### dptransfer {name}\n" not in pages] == []
    assert "| `--epsilon`, `-e` |" in pages


def test_every_module_of_the_api_has_its_place_on_a_page():
    text = "\n".join(page.read_text() for page in (DOCS / "reference" / "api").glob("*.md"))
    assert sorted(re.findall(r"^```\{public-names\} (\S+)$", text, re.MULTILINE)) == sorted(_ORDER)
    assert all(exported(module) for module in _ORDER)


def test_the_drawing_shows_every_package_of_the_contract():
    assert layers().count("<rect") == len(re.findall('class="name"', layers()))
    assert [name for name, about in _ABOUT.items() if f">{name}<" not in layers()] == []
    assert all(draw().startswith("<svg") for draw in DRAWINGS.values())


@pytest.mark.parametrize("page", ["photographs", "tickets", "served-model"])
def test_a_tutorial_as_a_notebook_has_every_block_and_no_link_to_a_page(page):
    text = (DOCS / "tutorials" / f"{page}.md").read_text()
    cells = notebook(text)["cells"]
    code = [cell["source"] for cell in cells if cell["cell_type"] == "code"]
    blocks = re.findall(r"^```(python|sh|console)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    assert code == [("" if kind == "python" else "%%bash\n") + block.strip() for kind, block in blocks]
    prose = "".join(cell["source"] for cell in cells if cell["cell_type"] == "markdown")
    assert ".md)" not in prose
    assert "{notebook}" not in prose
    assert prose.startswith("# ")
