"""The card as one HTML page: inline style, light and dark, printable, no script, no request."""

from __future__ import annotations

from html import escape

from dptransfer.privacy import rounded_up
from dptransfer.release.card import (
    AttackCurve,
    Block,
    Bullets,
    Card,
    Command,
    Paragraph,
    RecallBars,
    Section,
    Table,
)
from dptransfer.release.card_figures import attack_curve, recall_bars

_CSS = """
:root{color-scheme:light dark;--paper:#fbfaf7;--sheet:#fff;--ink:#1c2127;--soft:#5b6570;--line:#e3e1da;
--accent:#1f6f5c;--tint:#e9f3ef;--alarm:#b3261e;--alarm-tint:#fdecea}
@media (prefers-color-scheme:dark){:root{--paper:#14171a;--sheet:#1b1f23;--ink:#e8e6e1;--soft:#9aa4ae;
--line:#30363c;--accent:#63c4a8;--tint:#17302a;--alarm:#ff8a80;--alarm-tint:#3a1a18}}
*{box-sizing:border-box}
body{margin:0;background:var(--paper);color:var(--ink);
font:16px/1.55 system-ui,-apple-system,"Segoe UI",Roboto,"Noto Sans",sans-serif}
main{max-width:52rem;margin:2.5rem auto;padding:0 1.25rem}
header{background:var(--sheet);border:1px solid var(--line);border-radius:14px;padding:1.6rem 1.8rem}
h1{font-size:1.05rem;font-weight:600;color:var(--soft);margin:0 0 .7rem;overflow-wrap:anywhere}
.sentence{font-size:1.32rem;line-height:1.4;font-weight:600;margin:0 0 1.3rem;overflow-wrap:anywhere}
.figures{display:flex;flex-wrap:wrap;gap:.7rem;margin:0}
.figures div{flex:1 1 9rem;background:var(--tint);border-radius:10px;padding:.7rem .9rem}
.figures dt{font-size:.8rem;color:var(--soft)}
.figures dd{margin:0;font-size:1.35rem;font-weight:650;color:var(--accent);font-variant-numeric:tabular-nums}
.about{display:grid;grid-template-columns:max-content 1fr;gap:.15rem 1rem;margin:1.1rem 0 0;font-size:.93rem}
.about dt{color:var(--soft)}
.about dd{margin:0;overflow-wrap:anywhere}
.void .sentence,.void .figures dd{color:var(--alarm)}
.alarm{background:var(--alarm-tint);color:var(--alarm);border:2px solid var(--alarm);border-radius:14px;
padding:1rem 1.3rem;margin:0 0 1.2rem;font-weight:650}
section{margin:2.1rem 0;break-inside:avoid-page}
h2{font-size:1.12rem;margin:0 0 .6rem;padding-bottom:.3rem;border-bottom:1px solid var(--line)}
p{margin:.55rem 0;overflow-wrap:anywhere}
ul{margin:.4rem 0 .8rem;padding-left:1.2rem}
li{margin:.15rem 0;overflow-wrap:anywhere}
.scroll{overflow-x:auto}
table{width:100%;border-collapse:collapse;margin:.7rem 0;font-size:.93rem;font-variant-numeric:tabular-nums}
th,td{text-align:left;vertical-align:top;padding:.38rem .9rem .38rem 0;border-bottom:1px solid var(--line);
overflow-wrap:anywhere}
th{font-weight:600;color:var(--soft);font-size:.82rem}
table.two td:first-child{width:42%;color:var(--soft)}
pre{background:var(--tint);border-radius:8px;padding:.6rem .9rem;overflow-x:auto;font-size:.9rem}
figure{margin:1rem 0}
figcaption{font-size:.85rem;color:var(--soft);margin-top:.3rem}
svg{display:block;width:100%;height:auto;font:11px system-ui,sans-serif}
svg text{fill:var(--soft)}
.axis{stroke:var(--line);fill:none}.chance{stroke:var(--soft);stroke-dasharray:4 4;fill:none}
.curve{stroke:var(--accent);stroke-width:2.5;fill:none}.under{fill:var(--tint);stroke:none}
.bar{fill:var(--accent)}.track{fill:var(--tint)}.whisker{stroke:var(--ink);stroke-width:1.3}
footer{color:var(--soft);font-size:.85rem;margin:2.5rem 0}
@media print{:root{--paper:#fff;--sheet:#fff;--ink:#000;
--soft:#444;--line:#ccc;--accent:#1f6f5c;--tint:#f1f6f4;
--alarm:#b3261e;--alarm-tint:#fff}main{max-width:none;margin:0}body{font-size:11pt}
*{-webkit-print-color-adjust:exact;print-color-adjust:exact}}
"""
_POLICY = "default-src 'none'; style-src 'unsafe-inline'"


def render_html(card: Card) -> str:
    """The whole page."""
    numbers = card.numbers
    alarm = f'<p class="alarm" role="alert">{escape(card.warning)}</p>\n' if card.warning else ""
    void = ' class="void"' if card.warning else ""
    figures = "".join(
        f'<div><dt>{name}</dt><dd data-number="{key}" data-value="{escape(exact)}">{escape(shown)}</dd></div>'
        for name, key, exact, shown in (
            ("epsilon", "epsilon", repr(numbers.epsilon), rounded_up(numbers.epsilon)),
            ("delta", "delta", repr(numbers.delta), rounded_up(numbers.delta)),
            ("neighbours", "relation", numbers.relation, numbers.relation),
        )
    )
    about = "".join(f"<dt>{escape(name)}</dt><dd>{escape(said)}</dd>" for name, said in card.about)
    sections = "\n".join(_section(section) for section in card.sections)
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{_POLICY}">
<title>{escape(card.title)}</title>
<style>{_CSS}</style>
</head>
<body>
<main>
{alarm}<header{void}>
<h1>{escape(card.title)}</h1>
<p class="sentence">{escape(card.sentence)}</p>
<dl class="figures">{figures}</dl>
<dl class="about">{about}</dl>
</header>
{sections}
<footer>Written by dptransfer. The card describes release.json and model.safetensors beside it.</footer>
</main>
</body>
</html>
"""


def _section(section: Section) -> str:
    blocks = "\n".join(_block(block) for block in section.blocks)
    return f"<section>\n<h2>{escape(section.title)}</h2>\n{blocks}\n</section>"


def _block(block: Block) -> str:
    if isinstance(block, Paragraph):
        return f"<p>{escape(block.text)}</p>"
    if isinstance(block, Bullets):
        return "<ul>" + "".join(f"<li>{escape(item)}</li>" for item in block.items) + "</ul>"
    if isinstance(block, Command):
        return f"<pre><code>{escape(block.text)}</code></pre>"
    if isinstance(block, Table):
        return _table(block)
    if isinstance(block, AttackCurve):
        caption = (
            "The best possible attack (line) against guessing (dashes): the closer, the less is revealed."
        )
        return f"<figure>{attack_curve(block)}<figcaption>{caption}</figcaption></figure>"
    assert isinstance(block, RecallBars)
    caption = "Recall of each class, with its 95% interval."
    return f"<figure>{recall_bars(block)}<figcaption>{caption}</figcaption></figure>"


def _table(table: Table) -> str:
    kind = ' class="two"' if len(table.header) == 2 else ""
    head = "".join(f"<th>{escape(cell)}</th>" for cell in table.header)
    rows = "\n".join(
        "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in table.rows
    )
    whole = f"<thead><tr>{head}</tr></thead>\n<tbody>\n{rows}\n</tbody>"
    return f'<div class="scroll"><table{kind}>\n{whole}\n</table></div>'
