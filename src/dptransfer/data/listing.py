"""CSV files that list examples: one column of paths or texts, and perhaps one of labels."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from dptransfer.data.embeddings import Labels, declared_classes
from dptransfer.data.parsing import parsing
from dptransfer.errors import DataError


def read_listing(path: Path, column: str) -> tuple[list[str], list[str] | None]:
    """The named column and the column `label` (None without one) of a CSV file with a header."""
    with parsing(path, "the file must be a CSV in UTF-8; it is not.", "Save it again."):
        with path.open(newline="", encoding="utf-8-sig") as stream:
            reader = csv.DictReader(stream, strict=True)
            header = reader.fieldnames or []
            if column not in header:
                raise DataError(
                    f"'{path}': the first line must name the columns, '{column}' among them; it does not. "
                    f"Begin the file with the line: {column},label"
                )
            lines = list(reader)
    if not lines:
        raise DataError(f"'{path}': the CSV must list at least one example; it lists none. Check the file.")
    labelled = "label" in header
    if any(line[column] is None or (labelled and line["label"] is None) for line in lines):
        raise DataError(
            f"'{path}': each line must fill every column; at least one is short. Complete the lines."
        )
    return [line[column] for line in lines], [line["label"] for line in lines] if labelled else None


def positions_of(
    path: Path, words: Sequence[str] | None, classes: Sequence[str | int] | None
) -> tuple[Labels | None, tuple[str | int, ...] | None]:
    """Label words as positions in the declared list; whole numbers are matched as they are written."""
    declared = None if classes is None else declared_classes(classes)
    if words is None:
        return None, None
    if declared is None:
        raise DataError(
            f"'{path}': classes must be declared, for they are never inferred from labels. "
            "Pass classes=[...], the full public list."
        )
    place = {str(name): position for position, name in enumerate(declared)}
    positions = np.array([place.get(word.strip(), -1) for word in words], dtype=np.int64)
    if (positions < 0).any():
        raise DataError(
            f"'{path}': every label must be one of the {len(declared)} declared classes; "
            "at least one is not. Declare the full public list of classes, or drop the other examples."
        )
    return positions, declared
