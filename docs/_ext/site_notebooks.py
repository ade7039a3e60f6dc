"""Tutorials as notebooks: `{notebook}` offers the page it stands on as an .ipynb file to download.

Python blocks become code cells, commands become cells of `%%bash`, and what is between them is text. A
notebook runs from an empty folder where dptransfer is installed.
"""

import json
import re
from pathlib import Path

from docutils import nodes
from sphinx.util.docutils import SphinxDirective

_BLOCK = re.compile(r"^```(\S*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_SHELL = ("sh", "console")


def notebook(page: str) -> dict[str, object]:
    """The page as a notebook of format 4.5."""
    cells, start = [], 0
    for block in _BLOCK.finditer(page):
        language, content = block[1], block[2]
        if language not in ("python", *_SHELL):
            continue
        cells.append(("markdown", page[start : block.start()]))
        cells.append(("code", content if language == "python" else f"%%bash\n{content}"))
        start = block.end()
    cells.append(("markdown", page[start:]))
    return {
        "nbformat": 4,
        "nbformat_minor": 5,
        "metadata": {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}},
        "cells": [
            _cell(kind, _without_directives(text).strip(), place)
            for place, (kind, text) in enumerate(cells)
            if _without_directives(text).strip()
        ],
    }


def _cell(kind: str, text: str, place: int) -> dict[str, object]:
    more = {"execution_count": None, "outputs": []} if kind == "code" else {}
    return {"id": f"cell-{place}", "cell_type": kind, "metadata": {}, "source": text, **more}


def _without_directives(text: str) -> str:
    """Text that a notebook can show: no directives, and no links to other pages of the site."""
    text = re.sub(r"^```\{.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    return re.sub(r"\[([^\]]+)\]\((?!https?:)[^)]+\)", r"\1", text)


class Notebook(SphinxDirective):
    """A link to this page as a notebook."""

    def run(self):
        """Write the notebook beside the page's place on the site, and link to it."""
        page = Path(self.env.doc2path(self.env.docname))
        target = Path(self.env.app.outdir, self.env.docname).with_suffix(".ipynb")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(json.dumps(notebook(page.read_text()), indent=1, ensure_ascii=False))
        link = nodes.reference("", "Download this page as a notebook", refuri=target.name)
        return [nodes.paragraph("", "", link)]


def setup(app):
    """Register the directive."""
    app.add_directive("notebook", Notebook)
    return {"parallel_read_safe": True}
