import re

import pytest
from markdown_it import MarkdownIt

from dptransfer.base.document import Code, Document, Figure, Paragraph, Section

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


def test_tables_are_tables_with_the_best_in_bold():
    text = with_everything().markdown()
    assert "| --- | ---: |" in text
    assert "| **2.0** |" in text
    assert shape(text).count("table_open") == 2


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


def test_code_cannot_end_itself():
    page = Document("t", sections=(Section("s", (Code("a\n```\n# b"),)),))
    assert shape(page.markdown())[-1] == "fence"
