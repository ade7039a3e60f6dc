"""Tables for papers: LaTeX with booktabs, in which no character of a name can become a command."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from dptransfer.base.document import Document, Table, one_line, plain
from dptransfer_lab.points import slug

_WRITTEN: dict[str, str | int | None] = {
    **{letter: f"\\{letter}" for letter in "&%$#_{}"},
    # After the end of a line, a bracket or a star would be taken for its argument.
    **{letter: f"{{{letter}}}" for letter in "[]*"},
    "\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "|": r"\textbar{}",
    "<": r"\textless{}", ">": r"\textgreater{}", '"': r"\textquotedbl{}", "'": r"\textquotesingle{}",
    "`": r"\textasciigrave{}", "–": "--", "…": r"\ldots{}", "−": "$-$", "ε": r"$\varepsilon$",
    "δ": r"$\delta$", "ρ": r"$\rho$", "μ": r"$\mu$", "×": r"$\times$", "÷": r"$\div$", "≤": r"$\leq$",
    "≥": r"$\geq$", "√": r"$\surd$", "·": r"$\cdot$",
    **{letter: f"$^{{{sign}}}$" for letter, sign in zip("⁰¹²³⁴⁵⁶⁷⁸⁹⁻", "0123456789-", strict=True)},
}  # fmt: skip
_NEEDS = "% needs \\usepackage{booktabs,textcomp} and \\usepackage[T1]{fontenc}\n"


def escape_latex(text: str) -> str:
    r"""LaTeX that shows exactly this text, on one line.

    >>> print(escape_latex("K_1 at ε = 50 %"))
    K\_1 at $\varepsilon$ = 50 \%
    """
    return one_line(text).translate(str.maketrans(_WRITTEN)).replace("}$$^{", "")  # one exponent


def to_latex(table: Table, name: str) -> str:
    """The table as a floating `table`, what is marked in bold."""
    cells = [[escape_latex(plain(cell)) for cell in row] for row in table.rows]
    frame = pd.DataFrame(cells, columns=range(len(table.header)))
    bold = pd.DataFrame(
        [
            ["textbf: --rwrap;" if table.stands_out(row, column) else "" for column in frame.columns]
            for row in frame.index
        ],
        columns=frame.columns,
    )
    styler = frame.style.hide(axis="index").apply(lambda _: bold, axis=None)
    styler = styler.relabel_index([escape_latex(plain(name)) for name in table.header], axis=1)
    text: str = styler.to_latex(
        hrules=True, column_format=table.align.ljust(len(table.header), "l"), label=f"tab:{name}",
        caption=escape_latex(plain(table.caption)), position="t", position_float="centering",
    )  # fmt: skip
    return _NEEDS + text


def write_tables(page: Document, folder: Path) -> list[Path]:
    """Every table of a document as a file, named by its section."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for section in page.sections:
        tables = [block for block in section.blocks if isinstance(block, Table)]
        for number, table in enumerate(tables, 1):
            name = slug(section.title, *([number] if len(tables) > 1 else []))
            written.append(folder / f"{name}.tex")
            written[-1].write_text(to_latex(table, name), encoding="utf-8")
    return written
