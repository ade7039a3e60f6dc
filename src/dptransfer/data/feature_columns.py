"""Which columns of a table are features: by patterns, or all of numbers but those that say something else."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from dptransfer.data.natural_order import natural_order
from dptransfer.data.table import LABEL_NAMES, require

_INDEX = "__index_level_"  # what pandas calls the row numbers that it writes


def feature_names(
    path: Path,
    columns: Sequence[str],
    wanted: str | Sequence[str] | None,
    others: Collection[str | None] = (),
) -> list[str]:
    """The features among the columns, in the order of a list of names, or one that names alone decide.

    So two files whose columns stand in another order give the same rows. Numbers in names count as numbers:
    f2 comes before f10. Names and types decide, and no cell does.

    >>> columns = ["f10", "label", "f2", "age", "patient"]
    >>> feature_names(Path("a.csv"), columns, None, ["patient"])
    ['age', 'f2', 'f10']
    >>> feature_names(Path("a.csv"), columns, "f*")
    ['f2', 'f10']
    >>> feature_names(Path("a.csv"), columns, ["f10", "age"])
    ['f10', 'age']

    Args:
        path: the file, for a message.
        columns: those that could be features.
        wanted: names with * and ? for letters, separated by commas; a list of names, such as a release has
            them, of which all must be there; None for all columns but those of a usual name for labels, and
            row numbers that pandas wrote.
        others: columns that say something else, people or labels, and so are no features.
    """
    own_name = "each column must have a name of its own; two have one."
    require(len(set(columns)) == len(columns), path, own_name, "Rename one of them.")
    if wanted is not None and not isinstance(wanted, str):
        absent = [name for name in wanted if name not in columns]
        rule = (
            f"it must have the columns of features that are wanted; '{''.join(absent[:1])}' is none of its."
        )
        require(not absent, path, rule, "Columns are told by their names: rename it, or add it.")
        return list(wanted)
    columns = [one for one in columns if one not in others]
    if wanted is None:
        features = (one for one in columns if one not in LABEL_NAMES and not one.startswith(_INDEX))
        return sorted(features, key=natural_order)
    chosen: set[str] = set()
    for pattern in filter(None, map(str.strip, wanted.split(","))):
        found = {one for one in columns if fnmatchcase(one, pattern)}
        none = f"the pattern '{pattern}' must fit a column of numbers; it fits none."
        require(found, path, none, "Write names, or patterns such as 'f*', with commas between them.")
        chosen |= found
    return sorted(chosen, key=natural_order)
