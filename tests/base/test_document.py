import json

import pytest

from dptransfer.base.document import Document, Figure, Paragraph, Section, one_line, visible
from dptransfer.errors import ArgumentError

from .pages import with_everything


def test_json_has_every_block_with_its_kind_and_exact_numbers():
    told = with_everything().to_dict()
    assert json.loads(json.dumps(told)) == told
    assert told["numbers"] == {"epsilon": 0.9999999999755346}
    kinds = [block["kind"] for section in told["sections"] for block in section["blocks"]]
    assert kinds == [
        "Paragraph", "Note", "Note", "Note", "Bullets", "Code", "Code", "Table", "Figure", "Figure"
    ]  # fmt: skip
    table = told["sections"][1]["blocks"][3]
    assert table["rows"] == [["plain", "1.0"], ["plain plain e^ε plain", "2.0"]]
    assert "picture" not in told["sections"][2]["blocks"][0]


def test_sections_of_one_title_have_two_anchors():
    page = Document(
        "", sections=tuple(Section(title, ()) for title in ("Results", "Results", "Results-1", "?"))
    )
    assert page.anchors() == ("results", "results-1", "results-1-1", "section")


@pytest.mark.parametrize("name", ["", "a b", "../a", 'a"b'])
def test_a_figure_whose_name_is_no_file_name_is_refused(name):
    with pytest.raises(ArgumentError, match="letters, digits"):
        Figure(name, "<svg/>", "alt")


def test_a_document_of_a_title_alone_has_every_form():
    bare = Document("Bare", sections=(Section("One", (Paragraph("words"),)),))
    assert bare.markdown() == "# Bare\n\n## One\n\nwords\n"
    assert bare.text() == "Bare\n====\n\nOne\n---\n\nwords\n"
    assert "<nav" not in bare.html()


@pytest.mark.parametrize("hidden", ["\x1b", "\u202e", "\u2066", "\ufeff", "\x00", "\u200b", "\ud800"])
def test_what_nobody_would_see_is_shown_as_a_mark(hidden):
    assert one_line(f"a{hidden}b") == "a\ufffdb"


def test_lines_become_one_and_joiners_stay():
    assert one_line(" two\n\tlines\r\n") == "two lines"
    assert one_line("na\u200cme") == "na\u200cme"
    assert visible("  two  spaces") == "  two  spaces"
