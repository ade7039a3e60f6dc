from dptransfer_lab.page import Findings, Page, Section, Table
from dptransfer_lab.report_markdown import render_markdown

from .test_report_html import PAGE


def test_the_text_has_everything_the_page_has():
    text = render_markdown(PAGE, "pictures")
    assert text.startswith("# A <title>\n\nlead & more\n")
    assert [line for line in text.splitlines() if line.startswith("## ")] == [
        f"## {name}" for name in ("One", "Two", "Three", "Four", "Five")
    ]
    assert "**beware**" in text
    assert "| method | ε |\n| --- | ---: |\n| a & b | 1.0 n=3 |" in text
    name = PAGE.sections[2].blocks[0].drawing.name
    assert f"](pictures/{name}.svg)" in text
    assert "2 seeds per point" in text
    assert "- it rains **confirmed**, because it is wet." in text
    assert "```sh\ndptransfer bench run a --out 'b'\n```" in text


def test_bars_and_line_ends_do_not_break_a_table():
    page = Page("t", "l", [Section("s", [Table("c", ["a"], [["x|y\nz"]]), Findings([])])])
    assert "| x\\|y z |" in render_markdown(page)
