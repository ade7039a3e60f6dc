import re

import pytest
from markdown_it import MarkdownIt

from dptransfer.base.document import Document, Figure, Paragraph, Section, Table

from .pages import NASTY, with_everything

READER = MarkdownIt("commonmark").enable("table")


def shape(text):
    """What Markdown makes of the text: its blocks and marks, without the words."""
    kinds = []
    for token in READER.parse(text):
        kinds.append(token.type)
        kinds += [one.type for one in token.children or () if one.type not in ("text", "softbreak")]
    return kinds


@pytest.mark.parametrize("word", NASTY)
def test_no_word_becomes_markup(word):
    assert shape(with_everything(word).markdown()) == shape(with_everything().markdown())
    assert not set("\x1b\u202e\x00") & set(with_everything(word).markdown())


def test_words_are_shown_as_they_are():
    (token,) = [token for token in READER.parse(escaped("a|b *c* <d> `e` [f](g) \\ & $x$")) if token.children]
    assert "".join(one.content for one in token.children) == "a|b *c* <d> `e` [f](g) \\ & $x$"


def escaped(text):
    return Document("t", sections=(Section("s", (Paragraph(text),)),)).markdown().split("\n\n")[2]


def test_the_contents_link_to_headings_as_github_names_them():
    text = with_everything("What, and why?").markdown()
    links = re.findall(r"\]\(#([^)]+)\)", text)
    assert links == ["what-and-why", "what-and-why-1", "figures", "told"]


def test_a_figure_is_a_file_beside_it_or_the_table_that_says_the_same():
    text = with_everything().markdown()
    assert "![plain](figures/drawn.svg)" in text
    assert "told.svg" not in text
    bare = Document("t", sections=(Section("s", (Figure("shot", "<svg/>", "a [b]"),)),))
    assert "![a \\[b\\]](figures/shot.svg)" in bare.markdown()


@pytest.mark.parametrize("width", [40, 80, 120])
def test_no_line_is_wider_than_it_may_be(width):
    text = with_everything("some words that go on for a while, and one_that_is_" + "long" * 20).text(width)
    assert max(len(line) for line in text.splitlines()) <= width
    assert text == "\n".join(line.rstrip() for line in text.splitlines()) + "\n"


@pytest.mark.parametrize("word", NASTY)
def test_no_word_becomes_a_control_sequence(word):
    text = with_everything(word).text(100)
    assert not set("\x1b\u202e\x00\r\t") & set(text)
    assert "script" not in word or "<script>alert('x')</script>" in text
    assert "markup" not in word or "[bold]markup[/bold] :smile:" in text


def test_colour_only_where_it_is_asked_for():
    page = with_everything()
    assert "\x1b[" in page.text(colour=True)
    assert "\x1b[" not in page.text()
    assert "\x1b[31m" not in Document("\x1b[31mred").text(colour=True).replace("\x1b[1m", "")


def test_everything_is_there():
    text = with_everything("word").text(100)
    for said in ("▌ word", "e^ε", " one\n   two", "• word", "2.0", "δ"):
        assert said in text


def test_numbers_stand_under_each_other():
    table = Table(("method", "score"), (("a", "9.5"), ("b", "10.5")), align="lr")
    lines = Document("t", sections=(Section("s", (table,)),)).text(60).splitlines()
    ends = {len(line) for line in lines if line.endswith(".5")}
    assert len(ends) == 1
