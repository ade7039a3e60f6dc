"""Rows from whatever a path holds: embeddings in any format, or images and texts with an encoder."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dptransfer.cli.declared import class_list, class_sizes
from dptransfer.cli.encoding import examples_in, is_table, progress_bar, unrecognised
from dptransfer.cli.problems import refuse_problems
from dptransfer.cli.screen import say
from dptransfer.errors import ArgumentError, DataError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dptransfer.data import ImageList, PrivateEmbeddings, PublicEmbeddings, TextList
    from dptransfer.encoders import Encoder

_REMEDY = "Repair or remove them, or pass --allow-unreadable to count each as a row of zeros."


@dataclass(frozen=True)
class Declaration:
    """What the command line says about private data."""

    classes: str | None = None
    name: str | None = None
    size: int | None = None
    class_counts: str | None = None
    split: str | None = None
    labels: Path | None = None


@dataclass(frozen=True)
class Encoding:
    """How images or texts are to be encoded."""

    encoder: str | None = None
    image_size: int | None = None
    device: str = "cpu"
    batch: int = 32
    allow_unreadable: bool = False


def private_rows(path: Path, told: Declaration, how: Encoding) -> PrivateEmbeddings:
    """Private labelled rows; images and texts are encoded in memory."""
    from dptransfer.data import PrivateEmbeddings, read_private

    classes = None if told.classes is None else class_list(told.classes)
    counts = class_sizes(told.class_counts)
    if how.encoder is None:
        require_rows(path)
        _note_open_folder(path)
        return read_private(
            path,
            classes=classes,
            name=told.name,
            size=told.size,
            class_counts=counts,
            labels=told.labels,
            split=told.split,
        )
    if is_table(path):
        raise ArgumentError(f"--encoder is for images and texts; '{path}' holds rows already. Leave it out.")
    from dptransfer.encoders import get_encoder

    encoder = get_encoder(how.encoder, size=how.image_size, device=how.device)
    found = examples_in(path, encoder, classes)
    if found.labels is None or found.classes is None:
        raise DataError(
            f"'{path}': private examples must have labels; these have none. "
            "Use a folder per class, or a CSV with a column 'label'."
        )

    def refuse(names: Sequence[str]) -> None:
        refuse_problems(names, path, remedy=_REMEDY)

    rows = encoded(found, encoder, batch=how.batch, refuse=None if how.allow_unreadable else refuse)
    return PrivateEmbeddings(
        rows,
        class_names(found.classes, found.labels),
        classes=found.classes,
        name=told.name,
        encoder=encoder.identity,
        size=told.size,
        class_counts=counts,
    )


def _note_open_folder(path: Path) -> None:
    """Say it, once and in fixed words, where other users of the machine may read a private `.emb` folder."""
    from dptransfer.data.owner_only import others_may_look

    if path.suffix == ".emb" and path.is_dir() and others_may_look(path):
        say(f"Note: other users of this machine may read '{path}'. Close it: chmod -R go= {path}", err=True)


def labelled_shots(path: Path, classes: Sequence[str | int] | None) -> PublicEmbeddings:
    """The labelled public rows that --shots names; `classes` is the list their labels refer to, if known."""
    from dptransfer.data import read_public

    require_rows(path)
    try:
        shots = read_public(path, classes=classes)
    except DataError as problem:
        raise DataError(f"--shots: {problem}") from problem
    if shots.labels is None:
        raise DataError(
            f"--shots must name rows with labels; '{path}' has none. "
            "Encode a folder per class, or pass rows without labels as --public."
        )
    return shots


def beside(pool: PublicEmbeddings | None, shots: PublicEmbeddings | None) -> PublicEmbeddings | None:
    """The pool with the shots at its side; shots alone are the public rows."""
    if pool is None or shots is None:
        return shots if pool is None else pool
    return pool.with_shots(shots)


def encoded(
    found: ImageList | TextList,
    encoder: Encoder,
    *,
    batch: int,
    refuse: Callable[[Sequence[str]], None] | None,
) -> NDArray[Any]:
    """Rows of the images or texts, in memory; `refuse` raises if it is given names of unreadable images."""
    from dptransfer.data import ImageList
    from dptransfer.encoders import encode_images_in_memory, encode_texts_in_memory

    if not isinstance(found, ImageList):
        return encode_texts_in_memory(found.texts, encoder, batch=batch)
    if refuse is not None:
        refuse(unrecognised(found.paths))
    with progress_bar("encoding") as step:
        rows, unreadable = encode_images_in_memory(found, encoder, batch=batch, progress=step)
    if refuse is not None:
        refuse([str(found.paths[place]) for place in unreadable])
    return rows


def require_other_than(private: Path, path: Path | None, option: str, why: str) -> None:
    """Raise if an option names the private data themselves."""
    if path is not None and path.exists() and private.exists() and path.samefile(private):
        raise ArgumentError(
            f"{option} must name other data than the private ones; '{path}' is the same. {why} "
            "Give a file of its own."
        )


def require_rows(path: Path) -> None:
    """Raise for a path that holds images or texts."""
    if path.exists() and not is_table(path):
        raise ArgumentError(
            f"Rows of numbers are needed; '{path}' looks like images or texts. Encode them first with "
            "'dptransfer encode', or let 'dptransfer fit' do it with --encoder."
        )


def class_names(classes: Sequence[str | int], positions: NDArray[Any]) -> NDArray[Any]:
    """Labels as names, which are understood whether classes are words or numbers."""
    import numpy as np

    named: NDArray[Any] = np.asarray(classes)[positions]
    return named
