"""Settings of the site: `make docs` builds it into site/; a warning is an error."""

import sys
import tomllib
from pathlib import Path

DOCS = Path(__file__).parent
ROOT = DOCS.parent
sys.path.insert(0, str(DOCS / "_ext"))

from dptransfer import __version__ as release  # noqa: E402

_PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

project = "dptransfer"
author = _PROJECT["authors"][0]["name"]
copyright = f"{author}, Apache-2.0"
version = release
language = "en"

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "sphinx_design",
    "notfound.extension",
    "site_links",
    "site_api",
    "site_commands",
    "site_figures",
    "site_notebooks",
    "site_llms",
]
exclude_patterns = ["_ext", "_static", "generated"]
nitpicky = True
# Types of other packages, and types of ours that signatures name and no page is about.
nitpick_ignore_regex = [(r"py:.*", r".*")]

myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 4  # the anchors that headings have on a forge
# Two classes are called PrivateClassifier, the model and the estimator for scikit-learn.
suppress_warnings = ["ref.python"]
default_role = "code"  # docstrings mark code with single backticks
pygments_style, pygments_dark_style = "friendly", "github-dark"
highlight_language = "none"

autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
napoleon_numpy_docstring = False
napoleon_use_ivar = True
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
notfound_urls_prefix = "/"

# Where the source is published; links that leave this folder go there. None as long as pyproject names no
# URL: such links are then plain text on the site, and work in a clone.
source_url = _PROJECT.get("urls", {}).get("Source")

html_theme = "furo"
html_title = f"dptransfer {release}"
(DOCS / "generated").mkdir(exist_ok=True)  # what site_figures makes before pages are read
html_static_path = ["_static", "generated"]
html_css_files = ["site.css"]
html_favicon = "_static/favicon.svg"
html_copy_source = False
html_show_sphinx = False


def setup(app):
    """Blocks of the import contract are plain text."""
    from pygments.lexers.special import TextLexer

    app.add_lexer("layers", TextLexer)
