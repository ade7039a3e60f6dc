import re

import pytest

from dptransfer.base.document import Document, Paragraph, Section, Table
from dptransfer_lab.paper import escape_latex, to_latex, write_tables

HOSTILE = "\\input{/etc/passwd} a&b 50% $x$ #1 _^~ {y} [z] *w* <t> \"q\" 'r' `s` | \x1b[31m\n\\\\"


def unescaped(text):
    """What is left of LaTeX once every command that an escape uses is taken out."""
    for known in (r"\textbackslash{}", r"\textasciitilde{}", r"\textasciicircum{}", r"\textbar{}"):
        text = text.replace(known, "")
    text = re.sub(r"\\text(?:less|greater|quotedbl|quotesingle|asciigrave)\{\}", "", text)
    return re.sub(r"\\[&%$#_{}]|\{[\[\]*]\}", "", text)


def test_no_character_of_a_name_becomes_a_command():
    left = unescaped(escape_latex(HOSTILE))
    assert not set(left) & set('\\&%$#_^~{}[]*<>"`|\n\x1b')
    assert "input" in left


def test_what_reports_write_can_be_set():
    assert escape_latex("ε = 1 at δ = 10⁻⁵ – 2·3 ≤ 7") == (
        r"$\varepsilon$ = 1 at $\delta$ = 10$^{-5}$ -- 2$\cdot$3 $\leq$ 7"
    )
    assert escape_latex("method K_1, ratio 10").isascii()


@pytest.fixture
def table():
    rows = (("[a]", "50.0 [45.0, 55.0]"), ("b & c", "60.0"))
    return Table(("method", "ε = 1"), rows, "Shares in %.", "lr", frozenset({(1, 1)}))


def test_a_table_has_rules_caption_label_and_its_best_in_bold(table):
    text = to_latex(table, "results-1")
    assert "booktabs" in text.splitlines()[0]
    body = text[text.index(r"\begin{tabular}") : text.index(r"\end{tabular}")].splitlines()
    assert body == [
        r"\begin{tabular}{lr}",
        r"\toprule",
        r"method & $\varepsilon$ = 1 \\",
        r"\midrule",
        r"{[}a{]} & 50.0 {[}45.0, 55.0{]} \\",
        r"b \& c & \textbf{60.0} \\",
        r"\bottomrule",
    ]
    assert r"\caption{Shares in \%.}" in text
    assert r"\label{tab:results-1}" in text
    assert text.count("{") == text.count("}")


def test_every_table_of_a_document_is_a_file(table, tmp_path):
    sections = (Section("Results: all", (Paragraph("words"), table, table)), Section("Cost", (table,)))
    written = write_tables(Document("t", sections=sections), tmp_path / "paper")
    assert [file.name for file in written] == ["results-all-1.tex", "results-all-2.tex", "cost.tex"]
    assert all(file.read_text().endswith("\\end{table}\n") for file in written)
