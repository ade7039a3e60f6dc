"""CSV files that list examples: one column of paths or texts, and perhaps one of labels and one of people."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path

from dptransfer.data.class_names import declared_classes
from dptransfer.data.labelled import Labelled, places
from dptransfer.data.parsing import parsing
from dptransfer.data.people import person_positions
from dptransfer.data.table import Listed, require, unreadable


def read_csv(path: Path, column: str, person: str | None = None) -> Listed:
    """The named column of a CSV file with a header, its column `label`, and that of people if named."""
    with parsing(path, "the file must be a CSV in UTF-8; it is not.", "Save it again."):
        with path.open(newline="", encoding="utf-8-sig") as stream:
            reader = csv.DictReader(stream, strict=True)
            header = reader.fieldnames or []
            named = f"the first line must name the columns, '{column}' among them; it does not."
            texts = "; for texts choose an encoder of texts" if "text" in header else ""
            begin = f"Begin the file with the line: {column},{person or 'label'}{texts}"
            require(column in header, path, named, begin)
            absent = f"people must be in the column '{person}'; the first line names none of that name."
            # Without the names that are there: without a header they are somebody's.
            require(person is None or person in header, path, absent, "Name the column that has them.")
            lines = list(reader)
    require(lines, path, "the CSV must list at least one example; it lists none.", "Check the file.")
    labelled = "label" in header
    short = any(line[column] is None or (labelled and line["label"] is None) for line in lines)
    require(
        not short, path, "each line must fill every column; at least one is short.", "Complete the lines."
    )
    return Listed(
        [line[column] for line in lines],
        [line["label"] for line in lines] if labelled else None,
        None if person is None else person_positions([line[person] for line in lines], len(lines)),
    )


def declared_labels(
    path: Path, words: Sequence[str] | None, classes: Sequence[str | int] | None
) -> Labelled | None:
    """Label words among the declared classes; whole numbers are matched as they are written."""
    declared = None if classes is None else declared_classes(classes)
    if words is None:
        return None
    if declared is None:
        undeclared = "classes must be declared, for they are never inferred from labels."
        raise unreadable(path, undeclared, "Pass classes=[...], the full public list.")
    return Labelled(places([word.strip() for word in words], [str(name) for name in declared]), declared)
