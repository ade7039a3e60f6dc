import re
from importlib.resources import files

import pytest

from dptransfer.base.document import Bullets, Document, Highlight, Paragraph, Section

from .pages import NASTY, Page, with_everything


def names(page):
    return [name for name, _ in page.attributes if name != "class"]  # long words have one of their own


@pytest.mark.parametrize("word", NASTY)
def test_no_word_becomes_markup(word):
    for form in (Document.html, Document.fragment):
        plain, page = Page(form(with_everything())), Page(form(with_everything(word)))
        assert page.tags == plain.tags
        assert names(page) == names(plain)
        assert not set("\x1b\u202e\x00") & set(page.said)


def test_words_are_shown_as_they_are():
    page = Page(with_everything("a < b & 'c'").html())
    assert page.said.count("a < b & 'c'") > 20
    assert "a < b & 'c'" in page.values("aria-label")


def test_a_superscript_is_one_marks_are_marks_and_numbers_for_programs_are_exact():
    html = with_everything().html()
    parts = (
        "e<sup>ε</sup>",
        '<td class="right best">2.0</td>',
        '<td class="right">1.0</td>',
        '<aside class="bad">',
        'data-number="epsilon" data-value="0.9999999999755346"',
    )
    assert [part for part in parts if part not in html] == []
    tags = Page(html).tags
    places = [tags.index(tag) for tag in ("header", "nav", "main", "section")]
    assert places == sorted(places)


def test_the_page_is_complete_alone_and_asks_for_nothing():
    page = Page(html := with_everything().html())
    assert not {"script", "link", "iframe", "object", "base", "form"} & set(page.tags)
    assert all(target.startswith("#") for target in page.values("href"))
    assert page.tags.count("svg") == 2
    assert page.values("src") + page.values("srcset") == []
    assert "default-src 'none'" in html
    for forbidden in ("@import", "http:", "https:", "//"):
        assert forbidden not in str(files("dptransfer.base").joinpath("style.css").read_text())
    assert "prefers-color-scheme:dark" in html
    assert "@media print" in html


def test_pictures_of_a_list_are_inside_the_page_and_a_missing_one_leaves_its_words():
    listed = Bullets(("one", "two", "three"), ((b"\xff\xd8", b"\xff"), (b"",)))
    page = Document("", sections=(Section("", (listed,)),)).html()
    assert re.findall(r'base64,(.*?)"', page) == ["/9g=", "/w=="]
    assert re.findall(r"<span>(\w+)</span>", page) == ["one", "two", "three"]


def test_every_link_of_the_contents_leads_to_a_section_and_no_id_is_given_twice():
    page = Page(with_everything().html())
    ids = page.values("id")
    assert len(set(ids)) == len(ids)
    links = [target[1:] for target in page.values("href")]
    assert len(links) == 4 + 2  # sections, and what each drawing refers to
    assert set(links) <= set(ids)


def test_a_drawing_has_its_own_ids():
    html = with_everything().html()
    parts = (
        'id="figure.drawn-cut"',
        "url(#figure.drawn-cut)",
        'href="#figure.drawn-cut"',
    )
    assert [part for part in parts if part not in html] == []
    assert "<?xml" not in html


def test_a_fragment_says_what_the_page_says_without_a_page_around_it():
    sections, about = (Section("First", (Paragraph("Words & more"),)),), (("By", "<me>"),)
    document = Document(
        "A <title>", "A sentence.", "Look <out>", (Highlight("ε", "1"),), about, sections, "The end"
    )
    shown = document.fragment()
    parts = ("A &lt;title", "Look &lt;out", "A sentence.", "&lt;me&gt;", "Words &amp; more", "The end")
    assert [part for part in parts if part not in shown] == []
    assert shown.index("Look") < shown.index("title") < shown.index("sentence") < shown.index("me&gt;")
    assert not {"<html", "<style", "<h1", "<h2", "<nav"} & set(re.findall(r"<\w+", shown))
    assert Document("Alone").fragment() == "<div>\n<p><strong>Alone</strong></p>\n</div>"
