import pytest

from dptransfer.base.document import Document, Section, Table

from .pages import NASTY, with_everything


@pytest.mark.parametrize("width", [40, 80, 120])
def test_no_line_is_wider_than_it_may_be(width):
    text = with_everything("some words that go on for a while, and one_that_is_" + "long" * 20).text(width)
    assert max(len(line) for line in text.splitlines()) <= width
    assert text == "\n".join(line.rstrip() for line in text.splitlines()) + "\n"


@pytest.mark.parametrize("word", NASTY)
def test_no_word_becomes_a_control_sequence_or_markup(word):
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
    for said in ("*** word ***", "e^ε", "    one\n      two", "[word]", "- word", "*2.0", "δ"):
        assert said in text


def test_numbers_stand_under_each_other():
    table = Table(("method", "score"), (("a", "9.5"), ("b", "10.5")), align="lr")
    lines = Document("t", sections=(Section("s", (table,)),)).text(60).splitlines()
    ends = {len(line) for line in lines if line.endswith(".5")}
    assert len(ends) == 1
