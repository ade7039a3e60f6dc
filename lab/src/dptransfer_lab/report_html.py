"""A report as one HTML page: inline style and drawings, light and dark, printable, no script, no request."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from dptransfer_lab.figures.style import css_colours
from dptransfer_lab.page import Block, Commands, Findings, Page, Paragraph, Picture, Section, Table

_LONG = 44  # characters from which on a cell of words is folded
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
_CSS = """
*{box-sizing:border-box}
body{margin:0;background:var(--paper);color:var(--ink);
font:16px/1.55 system-ui,-apple-system,"Segoe UI",Roboto,"Noto Sans",sans-serif}
main{max-width:64rem;margin:2.5rem auto;padding:0 1.25rem}
h1{font-size:1.6rem;line-height:1.25;margin:0 0 .5rem;overflow-wrap:anywhere}
.lead{font-size:1.06rem;color:var(--soft);margin:0 0 1.5rem}
nav{font-size:.92rem;margin:0 0 1.5rem}nav a{margin-right:1rem;white-space:nowrap}
a{color:var(--accent)}
section{margin:2.4rem 0}
h2{font-size:1.2rem;margin:0 0 .7rem;padding-bottom:.3rem;border-bottom:1px solid var(--line)}
p{margin:.6rem 0;overflow-wrap:anywhere}
.alarm{background:var(--alarm-tint);color:var(--alarm);border:1.5px solid var(--alarm);border-radius:10px;
padding:.7rem 1rem;font-weight:600}
.scroll{overflow-x:auto;margin:1rem 0 1.6rem}
table{border-collapse:collapse;font-size:.86rem;font-variant-numeric:tabular-nums;min-width:60%}
caption{text-align:left;caption-side:top;color:var(--soft);font-size:.86rem;padding:0 0 .5rem;max-width:60rem}
th,td{text-align:right;vertical-align:top;padding:.32rem .7rem;border-bottom:1px solid var(--line);
white-space:nowrap}
th{font-weight:600;color:var(--soft)}
td.word,th.word{text-align:left}
td.long{white-space:normal;min-width:14rem;max-width:34rem;overflow-wrap:anywhere}
tbody tr:hover{background:var(--tint)}
figure{margin:1.6rem 0;padding:1rem;background:var(--sheet);border:1px solid var(--line);border-radius:12px;
break-inside:avoid}
figcaption{font-size:.88rem;color:var(--soft);margin-top:.7rem}
figcaption b{color:var(--ink)}
svg{display:block;max-width:100%;height:auto;margin:0 auto}
svg text{font-family:"DejaVu Sans",Verdana,system-ui,sans-serif}
.claims{list-style:none;padding:0}
.claims li{margin:.7rem 0;padding-left:.9rem;border-left:4px solid var(--line)}
.claims .yes{border-color:var(--accent)}.claims .no{border-color:var(--alarm)}
.outcome{font-weight:700}.yes .outcome{color:var(--accent)}.no .outcome{color:var(--alarm)}
pre{background:var(--tint);border-radius:8px;padding:.7rem .9rem;overflow-x:auto;font-size:.88rem}
footer{color:var(--soft);font-size:.85rem;margin:3rem 0}
@media print{body{font-size:10pt}main{max-width:none;margin:0}nav{display:none}.scroll{overflow:visible}
table{font-size:7.5pt}figure{border:0;padding:0}tr{break-inside:avoid}
*{-webkit-print-color-adjust:exact;print-color-adjust:exact}}
"""
_OWN = {
    "paper": ("#fbfaf7", "#14171a"),
    "accent": ("#1f6f5c", "#63c4a8"),
    "tint": ("#eef4f1", "#1d2b27"),
    "alarm": ("#b3261e", "#ff8a80"),
    "alarm-tint": ("#fdecea", "#3a1a18"),
}


def render_html(page: Page) -> str:
    """The whole page."""
    colours = {**css_colours(), **_OWN}
    light, dark = (";".join(f"--{name}:{pair[side]}" for name, pair in colours.items()) for side in (0, 1))
    style = (
        f":root{{color-scheme:light dark;{light}}}\n"
        f"@media screen and (prefers-color-scheme:dark){{:root{{{dark}}}}}\n{_CSS}"
    )
    links = " ".join(
        f'<a href="#s{place}">{escape(one.title)}</a>' for place, one in enumerate(page.sections)
    )
    sections = "\n".join(_section(place, section) for place, section in enumerate(page.sections))
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{_POLICY}">
<title>{escape(page.title)}</title>
<style>{style}</style>
</head>
<body>
<main>
<h1>{escape(page.title)}</h1>
<p class="lead">{escape(page.lead)}</p>
<nav>{links}</nav>
{sections}
<footer>Written by dptransfer bench report.</footer>
</main>
</body>
</html>
"""


def _section(place: int, section: Section) -> str:
    blocks = "\n".join(_block(block) for block in section.blocks)
    return f'<section id="s{place}">\n<h2>{escape(section.title)}</h2>\n{blocks}\n</section>'


def _block(block: Block) -> str:
    if isinstance(block, Paragraph):
        alarm = ' class="alarm" role="note"' if block.alarm else ""
        return f"<p{alarm}>{escape(block.text)}</p>"
    if isinstance(block, Table):
        return _table(block)
    if isinstance(block, Picture):
        drawing = block.drawing
        words = f"<b>{escape(drawing.title)}.</b> {escape(drawing.caption)}"
        return f'<figure id="{drawing.name}">{drawing.inline()}<figcaption>{words}</figcaption></figure>'
    if isinstance(block, Findings):
        return _findings(block)
    assert isinstance(block, Commands)
    return f"<pre><code>{escape(chr(10).join(block.lines))}</code></pre>"


def _findings(block: Findings) -> str:
    kinds = {"confirmed": "yes", "not confirmed here": "no"}
    items = "\n".join(
        f'<li class="{kinds.get(outcome, "open")}">{escape(text)} '
        f'<span class="outcome">{escape(outcome)}</span>, '
        f"because {escape(because)}.</li>"
        for outcome, text, because in block.lines
    )
    return f'<ul class="claims">\n{items}\n</ul>'


def _table(table: Table) -> str:
    rows = "\n".join(f"<tr>{_cells(row, 'td', table.words)}</tr>" for row in table.rows)
    head = f"<thead><tr>{_cells(table.header, 'th', table.words)}</tr></thead>"
    return (
        f'<div class="scroll"><table>\n<caption>{escape(table.caption)}</caption>\n{head}\n'
        f"<tbody>\n{rows}\n</tbody>\n</table></div>"
    )


def _cells(row: Sequence[str], tag: str, words: int) -> str:
    def kind(place: int, cell: str) -> str:
        if place >= words:
            return ""
        return ' class="word long"' if len(cell) > _LONG else ' class="word"'

    return "".join(f"<{tag}{kind(place, cell)}>{escape(cell)}</{tag}>" for place, cell in enumerate(row))
