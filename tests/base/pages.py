"""A document with one of everything, hostile words, and a reader that tells what a browser would do."""

from html.parser import HTMLParser

from dptransfer.base.document import (
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
    Words,
)

NASTY = (
    "<script>alert('x')</script>",
    '"><img src=x onerror=y>',
    "</style></title></table>",
    "a|b*c* [x](http://evil) `d` _e_ $f$",
    "```\n# heading\n- item",
    "1. one",
    "\x1b[31mred\u202eder \x00\r\n\tend",
    "[bold]markup[/bold] :smile:",
)
SVG = (
    '<?xml version="1.0"?><svg viewBox="0 0 9 9"><clipPath id="cut"><rect width="9"/></clipPath>'
    '<g clip-path="url(#cut)" fill="#0072B2"></g><use href="#cut"/></svg>'
)
VOID = {"meta", "img", "source", "line", "rect", "polyline", "polygon", "use", "path"}


def with_everything(word="plain", svg=SVG):
    """A document in which `word` stands wherever a word may stand."""
    rich = Words((f"{word} ", Strong(word), " e", Superscript("ε"), f" {word}"))
    table = Table(
        (word, "score"), ((word, "1.0"), (rich, "2.0")), caption=rich, align="lr", marked=frozenset({(1, 1)})
    )
    return Document(
        title=word,
        sentence=rich,
        warning=word,
        highlights=(Highlight(word, rich, rich, "epsilon", 0.9999999999755346), Highlight("δ", "10⁻⁵")),
        about=((word, rich),),
        sections=(
            Section(word, (Paragraph(rich), Note(rich), Note(word, "good"), Note(word, "bad"))),
            Section(word, (Bullets((word, rich)), Code(word), Code("one\n  two", "python"), table)),
            Section("Figures", (Figure("drawn", svg, word, rich),)),
            Section("Told", (Figure("told", svg, word, instead=table),)),
        ),
        footer=word,
    )


class Page(HTMLParser):
    """What a browser would act on; fails where tags do not nest."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.attributes, self.open, self.boxes, self.said = [], [], [], [], ""
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.attributes += attributes
        if tag in ("table", "pre"):
            self.boxes.append((tag, [dict(one).get("class") for _, one in self.open]))
        if tag not in VOID:
            self.open.append((tag, attributes))

    def handle_startendtag(self, tag, attributes):
        self.tags.append(tag)
        self.attributes += attributes

    def handle_endtag(self, tag):
        assert self.open.pop()[0] == tag

    def handle_data(self, data):
        if not {"style", "script"} & {tag for tag, _ in self.open}:
            self.said += data

    def values(self, name):
        return [value for attribute, value in self.attributes if attribute == name]
