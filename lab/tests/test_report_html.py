import re
from html.parser import HTMLParser

from dptransfer_lab.figures.curves import curves
from dptransfer_lab.figures.style import css_colours, styles_of
from dptransfer_lab.page import Commands, Findings, Page, Paragraph, Picture, Section, Table
from dptransfer_lab.report_html import render_html

from .synthetic import grid

RECORDS = grid(seeds=2)
PAGE = Page(
    "A <title>",
    "lead & more",
    [
        Section("One", [Paragraph("<b>not bold</b>"), Paragraph("beware", alarm=True)]),
        Section("Two", [Table("numbers", ["method", "ε"], [["a & b", "1.0 n=3"]], 1)]),
        Section("Three", [Picture(curves(RECORDS, styles_of(RECORDS))[0])]),
        Section(
            "Four", [Findings([("confirmed", "it rains", "it is wet"), ("not confirmed here", "x", "y")])]
        ),
        Section("Five", [Commands(["dptransfer bench run a --out 'b'"])]),
    ],
)


class Balanced(HTMLParser):
    """Complains about a tag that is closed and was not opened."""

    void = frozenset(("meta", "br", "img", "path", "use"))

    def __init__(self):
        super().__init__()
        self.open = []

    def handle_starttag(self, tag, attrs):
        if tag not in self.void:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        pass

    def handle_endtag(self, tag):
        if tag not in self.void:
            assert self.open.pop() == tag


def test_the_page_is_well_formed_and_asks_nobody_for_anything():
    text = render_html(PAGE)
    parser = Balanced()
    parser.feed(text)
    assert parser.open == []
    assert "<script" not in text
    assert "default-src 'none'" in text
    assert not re.search(r'(?:src|href)="(?!#|data:)', text)
    assert "url(http" not in text


def test_words_from_elsewhere_are_escaped():
    text = render_html(PAGE)
    assert "<title>A &lt;title&gt;</title>" in text
    assert "&lt;b&gt;not bold" in text
    assert "a &amp; b" in text


def test_every_colour_has_a_light_and_a_dark_value():
    text = render_html(PAGE)
    light, dark = re.findall(r":root\{([^}]*)\}", text)
    assert "prefers-color-scheme:dark" in text
    for variable in (*css_colours(), "paper", "alarm"):
        assert f"--{variable}:" in light
        assert f"--{variable}:" in dark
    used = set(re.findall(r"var\(--([\w-]+)\)", text))
    assert used <= {name.split(":")[0].strip("-") for name in light.split(";")}
    assert "@media print" in text


def test_figures_captions_claims_and_links_are_there():
    text = render_html(PAGE)
    assert text.count("<figcaption>") == 1
    assert "2 seeds per point" in text
    assert '<li class="yes">it rains <span class="outcome">confirmed</span>, because it is wet.</li>' in text
    assert '<li class="no">' in text
    assert re.findall(r'<a href="#(s\d)">', text) == re.findall(r'<section id="(s\d)">', text)
    assert '<td class="word">a &amp; b</td><td>1.0 n=3</td>' in text
    assert '<p class="alarm" role="note">beware</p>' in text
