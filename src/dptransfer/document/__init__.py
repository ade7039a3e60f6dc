r"""Documents written once and shown as an HTML page, as Markdown, on a terminal and as JSON.

>>> page = Document("A title", sections=(Section("First", (Paragraph("Some <words>."),)),))
>>> print(page.markdown())
# A title
<BLANKLINE>
## First
<BLANKLINE>
Some \<words\>.
<BLANKLINE>

Whatever is put into a document is text. Each form has one escaper, which every word of it goes through, so
that a class name or a title can neither become markup nor reach a terminal as a control sequence. The one
exception is the SVG of a `Figure`, which is put into the page as it is: who draws it escapes its words.
"""

from dptransfer.document.html import escape_html
from dptransfer.document.markdown import escape_markdown
from dptransfer.document.model import (
    Block,
    Bullets,
    Code,
    Document,
    Figure,
    Highlight,
    Note,
    Paragraph,
    Section,
    Strong,
    Superscript,
    Table,
    Text,
    Tone,
    Words,
    plain,
)
from dptransfer.document.visible import one_line

__all__ = [
    "Block",
    "Bullets",
    "Code",
    "Document",
    "Figure",
    "Highlight",
    "Note",
    "Paragraph",
    "Section",
    "Strong",
    "Superscript",
    "Table",
    "Text",
    "Tone",
    "Words",
    "escape_html",
    "escape_markdown",
    "one_line",
    "plain",
]
