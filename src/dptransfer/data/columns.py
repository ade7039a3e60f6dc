"""Names of the columns of a table, where they differ from the usual ones."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Columns:
    """Which columns of a table hold what; None stands for the usual name.

    >>> Columns(label="diagnosis").label
    'diagnosis'

    Attributes:
        path: paths of images, in a CSV; usually 'path'.
        text: texts; usually 'text'.
        label: labels, or the name of their array; usually 'label', 'labels' or 'y'.
        features: features, as names or patterns such as 'f*', separated by commas; usually a list column of a
            known name, or else every column of numbers but those of labels and people.
        split: the part of a file that has several, for example 'train'.
    """

    path: str | None = None
    text: str | None = None
    label: str | None = None
    features: str | None = None
    split: str | None = None
