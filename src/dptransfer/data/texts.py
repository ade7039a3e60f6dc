"""Find the texts of a data set: a CSV or Parquet file with labels, or a plain file with one text per line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from dptransfer.arrays import People
from dptransfer.data.columns import read_text_columns
from dptransfer.data.csv_files import declared_labels, read_csv
from dptransfer.data.labelled import Labelled, LabelledList
from dptransfer.data.parsing import parsing
from dptransfer.data.person_files import people_in_file, person_column
from dptransfer.data.table import require


@dataclass(frozen=True, repr=False)
class TextList(LabelledList):
    """Texts in a fixed order, with labels where they are known; printing it shows none of them.

    Attributes:
        texts: the texts.
        labelled: their classes, or None.
        people: whose each is, as a number from 0, or None.
    """

    texts: tuple[str, ...]
    labelled: Labelled | None = None
    people: People | None = field(default=None, compare=False)

    def __len__(self) -> int:
        return len(self.texts)


def find_texts(
    source: str | Path,
    *,
    classes: Sequence[str | int] | None = None,
    labelled: bool = True,
    column: str = "text",
    person: str | Path | None = None,
) -> TextList:
    """Read texts from a CSV or Parquet file with a column of texts, or from a .txt of one text per line.

    Args:
        source: the file; CSV and .txt are in UTF-8.
        classes: the full public list of classes; required with labels, for it is never read off them.
        labelled: False to pass over a column `label`, as for a prediction.
        column: the column that holds the texts.
        person: the column that tells whose each text is; or a file that does (see `people_in_file`).
    """
    path = Path(source)
    require(path.is_file(), path, "the file of texts must exist; it does not.", "Check the path.")
    kind = path.suffix.lower()
    if kind in _COLUMNS:
        texts, words, people = _COLUMNS[kind](path, column, person_column(person))
        listed = TextList(tuple(texts), declared_labels(path, words if labelled else None, classes), people)
    else:
        require(kind == ".txt", path, "texts must come as .csv, .parquet or .txt.", "Convert the file.")
        listed = TextList(_lines(path))
        no_column = "a .txt has no column that tells people."
        require(person_column(person) is None, path, no_column, "Name a .csv or .npy file that does.")
    if person is None or listed.people is not None:
        return listed
    return replace(listed, people=people_in_file(Path(person), len(listed)))


def _lines(path: Path) -> tuple[str, ...]:
    with parsing(path, "the file must be UTF-8 text; it is not.", "Save it again."):
        lines = tuple(line for line in path.read_text(encoding="utf-8-sig").splitlines() if line.strip())
    require(lines, path, "the file must hold at least one text; it holds none.", "Check the file.")
    return lines


_COLUMNS = {".csv": read_csv, ".parquet": read_text_columns}
