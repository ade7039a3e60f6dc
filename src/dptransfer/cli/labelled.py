"""Labelled test rows, checked against what a model was or will be fitted on."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from dptransfer.cli.inputs import class_names, require_rows
from dptransfer.errors import DataError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dptransfer.data import Facts, PublicEmbeddings


def labelled_rows(
    path: Path, facts: Facts, *, split: str | None = None, labels: Path | None = None
) -> tuple[PublicEmbeddings, NDArray[Any]]:
    """Test rows and their class names; rows of another encoder, dimension or class list are refused."""
    from dptransfer.data import read_public

    require_rows(path)
    rows = read_public(path, classes=facts.classes, split=split, labels=labels)
    if rows.labels is None:
        raise DataError(f"'{path}': test rows must have labels; these have none. Pass --labels labels.npy.")
    rows.require_match(facts)
    return rows, class_names(facts.classes, rows.labels)
