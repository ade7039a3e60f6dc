"""Names of the columns of a table, where they differ from the usual ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Columns:
    """Which columns of a table, or arrays of an archive, hold what; None stands for the usual name.

    >>> Columns(label="diagnosis").label
    'diagnosis'

    Attributes:
        path: paths of images, in a CSV; usually 'path'.
        text: texts; usually 'text'.
        label: labels; usually 'label', 'labels' or 'y'.
        features: features, as names or patterns such as 'f*', separated by commas, or as a list of names;
            usually a list column of a known name, or else every column of numbers but those of labels and
            people.
        split: the part of a file that has several, for example 'train'.
        person: ids of people. For images and texts also a file of ids, 'folder' or 'dicom' (see
            `find_images`).
    """

    path: str | None = None
    text: str | None = None
    label: str | None = None
    features: str | Sequence[str] | None = None
    split: str | None = None
    person: str | Path | None = None


USUAL_COLUMNS = Columns()
"""The usual names of all columns."""
