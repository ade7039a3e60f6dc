"""A document as one HTML page: style and pictures inside, light and dark, printable, and no script."""

from __future__ import annotations

import html
import re
from base64 import b64encode
from collections.abc import Iterator
from importlib.resources import files

from dptransfer.base import document as model
from dptransfer.base.document import Document, Figure, Table, Text, inline, one_line, plain, visible

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
_LONG = 44  # letters from which on a cell asks for room, where a narrow page would fold it word by word


def to_html(document: Document) -> str:
    """The whole page."""
    title = escape_html(document.title)
    style = files("dptransfer.base").joinpath("style.css").read_text(encoding="utf-8")
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{_POLICY}">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
<div class="page">
<div class="head">
{head_html(document)}
</div>
{_contents(document)}<main>
{sections_html(document)}{_wrapped("footer", document.footer)}</main>
</div>
</body>
</html>
"""


def to_fragment(document: Document) -> str:
    """What a page says, short: no style, no links and no headings that would join the contents of others."""
    alarm = f"<p><strong>{escape_html(document.warning)}</strong></p>\n" if document.warning else ""
    head = "".join(
        f"<tr><th>{_inline(name)}</th><td>{_inline(said)}</td></tr>" for name, said in document.head()
    )
    blocks = "\n".join(_block(block) for section in document.sections for block in section.blocks)
    return (
        f"<div>\n{alarm}<p><strong>{escape_html(document.title)}</strong></p>\n"
        + _wrapped("p", document.sentence)
        + (f"<table><tbody>{head}</tbody></table>\n" if head else "")
        + (f"{blocks}\n" if blocks else "")
        + _wrapped("p", document.footer)
        + "</div>"
    )


def escape_html(text: object) -> str:
    """HTML that shows exactly this text, on one line, between tags and within quotes.

    >>> escape_html("a < 'b'")
    'a &lt; &#x27;b&#x27;'
    """
    return html.escape(one_line(text))


def _contents(document: Document) -> str:
    if len(document.sections) < 2:
        return ""
    links = "".join(
        f'<li><a href="#{anchor}">{escape_html(section.title)}</a></li>'
        for section, anchor in zip(document.sections, document.anchors(), strict=True)
    )
    return f'<nav aria-label="Contents"><h2>Contents</h2><ol>{links}</ol></nav>\n'


def head_html(document: Document) -> str:
    """Title, sentence and highlights, without a page around them."""
    title = escape_html(document.title)
    alarm = f'<p class="alarm" role="alert">{escape_html(document.warning)}</p>\n' if document.warning else ""
    void = ' class="void"' if document.warning else ""
    highlights = "".join(map(_highlight, document.highlights))
    about = "".join(f"<dt>{escape_html(name)}</dt><dd>{_inline(said)}</dd>" for name, said in document.about)
    return (
        f"{alarm}<header{void}>\n<h1>{title}</h1>\n"
        + _wrapped("p", document.sentence, ' class="sentence"')
        + (f'<dl class="highlights">{highlights}</dl>\n' if highlights else "")
        + (f'<dl class="about">{about}</dl>\n' if about else "")
        + "</header>"
    )


def _highlight(one: model.Highlight) -> str:
    exact = repr(one.exact) if isinstance(one.exact, float) else str(one.exact)
    data = f' data-number="{escape_html(one.key)}" data-value="{escape_html(exact)}"' if one.key else ""
    note = f'<dd class="note">{_inline(one.note)}</dd>' if one.note else ""
    return f'<div><dt>{_inline(one.name)}</dt><dd class="shown"{data}>{_inline(one.shown)}</dd>{note}</div>'


def sections_html(document: Document) -> str:
    """What stands under the head, likewise."""
    return "".join(_sections(document))


def _sections(document: Document) -> Iterator[str]:
    for section, anchor in zip(document.sections, document.anchors(), strict=True):
        blocks = "\n".join(map(_block, section.blocks))
        yield f'<section id="{anchor}">\n<h2>{escape_html(section.title)}</h2>\n{blocks}\n</section>\n'


def _inline(text: Text) -> str:
    return inline(text, html.escape, "<strong>{}</strong>", "<sup>{}</sup>")


def _wrapped(tag: str, text: Text, attributes: str = "") -> str:
    return f"<{tag}{attributes}>{_inline(text)}</{tag}>\n" if text else ""


def _block(block: model.Block) -> str:
    match block:
        case model.Paragraph(text):
            return f"<p>{_inline(text)}</p>"
        case model.Note(text, tone):
            return f'<aside class="{tone}">{_inline(text)}</aside>'
        case model.Bullets(items, pictures) if pictures:
            shown = (
                f"<li>{''.join(map(_thumbnail, own))}<span>{_inline(item)}</span></li>"
                for item, own in zip(items, (*pictures, *[()] * len(items)), strict=False)
            )
            return f'<ul class="pictures">{"".join(shown)}</ul>'
        case model.Bullets(items):
            return "<ul>" + "".join(f"<li>{_inline(item)}</li>" for item in items) + "</ul>"
        case model.Code(text):
            lines = "\n".join(html.escape(visible(line)) for line in text.splitlines())
            return f"<pre><code>{lines}</code></pre>"
        case Table():
            return _table(block)
        case Figure():
            caption = _wrapped("figcaption", block.caption)
            return f'<figure id="{_name(block)}">\n{_inline_svg(block)}\n{caption}</figure>'


def _thumbnail(jpeg: bytes) -> str:
    """A small picture; the words beside it name it. One without content is an empty frame."""
    source = f"data:image/jpeg;base64,{b64encode(jpeg).decode()}" if jpeg else "data:,"
    return f'<img alt="" src="{source}">'


def _table(table: Table) -> str:
    """Every table has a box of its own, in which it scrolls where the page is narrower."""
    head = "".join(_cell("th", table, cell, column) for column, cell in enumerate(table.header))
    rows = "\n".join(
        "<tr>" + "".join(_cell("td", table, cell, column, place) for column, cell in enumerate(row)) + "</tr>"
        for place, row in enumerate(table.rows)
    )
    return (
        f'<div class="scroll" tabindex="0"><table>\n{_wrapped("caption", table.caption)}'
        f"<thead><tr>{head}</tr></thead>\n<tbody>\n{rows}\n</tbody>\n</table></div>"
    )


def _cell(tag: str, table: Table, text: Text, column: int, row: int | None = None) -> str:
    kinds = {
        "right": table.right(column),
        "long": row is not None and len(plain(text)) > _LONG,
        "bar": row is not None and set(plain(text)) == {"█"},
        "best": row is not None and table.stands_out(row, column),
    }
    names = " ".join(kind for kind, so in kinds.items() if so)
    return f"<{tag}{f' class={chr(34)}{names}{chr(34)}' if names else ''}>{_inline(text)}</{tag}>"


def _inline_svg(figure: Figure) -> str:
    """The drawing as part of the page: its ids are its own."""
    drawing = figure.picture[figure.picture.index("<svg") :].strip()
    drawing = re.sub(r'\bid="([^"]+)"', rf'id="{_name(figure)}-\1"', drawing)
    drawing = re.sub(r'(href="#|url\(#)([^")]+)', rf"\1{_name(figure)}-\2", drawing)
    return drawing.replace("<svg", f'<svg role="img" aria-label="{escape_html(figure.alt)}"', 1)


def _name(figure: Figure) -> str:
    return f"figure.{figure.name}"  # no section has a point in its anchor
