"""Rows that the options of a command name: private, public, labelled; each checked before it is used."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dptransfer.cli.screen import say
from dptransfer.encoders.encoding import NOBODY, held_in, is_table, same_place
from dptransfer.errors import ArgumentError, DataError, Incompatible

if TYPE_CHECKING:
    from dptransfer.data import Facts, Labelled, PrivateEmbeddings, PublicEmbeddings


def private_rows(
    path: Path, *, person: str | None = None, of: Facts | None = None, **declared: Any
) -> PrivateEmbeddings:
    """Private labelled rows, with whose each is as far as the file or `--person` tells.

    Args:
        path: the file or folder.
        person: what `--person` says; if nothing, what an `.emb` folder keeps.
        of: the facts of a release that the rows are for, which then must fit, and give the list of classes.
        declared: what else `read_private` is told.
    """
    from dptransfer.data import require_same_encoder
    from dptransfer.data.facts import require_same_columns
    from dptransfer.sources import STORED, read_private

    if of is not None:
        declared["classes"] = of.classes
        declared["features"] = declared.get("features") or of.columns
    people = {None: STORED, NOBODY: None}.get(person, person)
    rows = read_private(path, people=people, **declared)
    if of is not None:
        require_same_encoder(of.encoder, rows.facts.encoder, names=("The release", f"'{path}'"))
        require_same_columns(of.columns, rows.facts.columns, names=("The release", f"'{path}'"))
        if of.dimension != rows.facts.dimension:
            found = f"it has {rows.facts.dimension}, the release {of.dimension}"
            raise Incompatible(f"'{path}' must be as wide as the release's rows; {found}. Encode it again.")
    return rows


def with_shots(
    pool: PublicEmbeddings | None,
    path: Path | None,
    classes: Sequence[str | int] | None,
    features: str | None = None,
    label_column: str | None = None,
) -> PublicEmbeddings | None:
    """The public rows: the pool with what --shots names at its side; shots alone are the public rows.

    Args:
        pool: the public pool, if there is one.
        path: the labelled public rows, if any are named.
        classes: the list that their labels refer to, if known.
        features: the columns of features in a table.
        label_column: the column of labels in a table.
    """
    from dptransfer.sources import read_public

    if path is None:
        return pool
    require_rows(path, features=features)
    try:
        shots = read_public(path, classes=classes, features=features, label_column=label_column)
    except DataError as problem:
        raise DataError(f"--shots: {problem}") from problem
    if shots.labels is None:
        raise DataError(
            f"--shots needs labelled rows; '{path}' has no labels. Pass unlabelled rows as --public."
        )
    return shots if pool is None else pool.with_shots(shots)


def with_words(pool: PublicEmbeddings | None, spec: str | None) -> PublicEmbeddings | None:
    """The public rows with the words that `--set data.vocabulary` names, which are those of their encoder."""
    from dptransfer.encoders import vocabulary

    if spec is None:
        return pool
    if pool is None:
        raise ArgumentError(
            "data.vocabulary has words for public rows; there are none. Pass --public, or leave it out."
        )
    return pool.with_vocabulary(vocabulary(spec))


def labelled_rows(
    path: Path,
    facts: Facts,
    *,
    split: str | None = None,
    labels: Path | None = None,
    features: str | None = None,
    label_column: str | None = None,
) -> tuple[PublicEmbeddings, Labelled, str]:
    """Test rows, their labels and name; rows of another encoder, dimension or class list are refused.

    The name is that of the file, for cards: what the ledger calls the rows, which an `.emb` folder keeps, is
    their owner's alone.
    """
    from dptransfer.data import Labelled
    from dptransfer.sources import read_public

    require_rows(path, features=features)
    columns: dict[str, Any] = {"features": features or facts.columns, "label_column": label_column}
    rows = read_public(path, classes=facts.classes, split=split, labels=labels, private_too=True, **columns)
    if rows.labels is None:
        remedy = "Name their column, --label-column NAME, or use 'dptransfer evaluate' with --labels a.npy."
        raise DataError(f"'{path}': test rows must have labels; these have none. {remedy}")
    rows.require_match(facts, names=("The model", f"'{path}'"))
    return rows, Labelled(rows.labels, facts.classes), path.name


def require_new(out: Path) -> None:
    """Raise for a file that is there already, be it a broken link."""
    if os.path.lexists(out):
        raise ArgumentError(f"--out must name a new file; '{out}' exists. Choose another name.")


def require_there(path: Path | None) -> None:
    """Raise for a file or folder that does not exist."""
    from dptransfer.data.tables import require

    exists = path is None or held_in(path).exists()
    require(exists, path or Path(), "the file or folder must exist; it does not.", "Check the path.")


def require_other_than(private: Path, path: Path | None, option: str, why: str) -> None:
    """Raise if an option names the private data themselves, a part of them, or a folder that holds them."""
    if path is not None and same_place(path, private):
        same = f"'{path}' is the same, or one holds the other. {why} Give a place of its own."
        raise ArgumentError(f"{option} must name other data than the private ones; {same}")


def require_rows(path: Path, *, features: str | None = None) -> None:
    """Raise for a path that holds images or texts."""
    if path.exists() and not is_table(path, features=features):
        raise ArgumentError(
            f"Rows of numbers are needed; '{path}' holds images or texts. Encode them first with 'dptransfer "
            "encode'."
        )


def note_open_folder(path: Path) -> None:
    """Say it, once and in fixed words, where other users of the machine may read a private `.emb` folder."""
    from dptransfer.data.atomic_files import others_may_look

    if path.suffix == ".emb" and path.is_dir() and others_may_look(path):
        say(
            f"Note: other users of this machine can read '{path}'. To prevent that, run: chmod -R go= {path}",
            err=True,
        )
