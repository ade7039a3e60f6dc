"""The rows that `dptransfer predict` is asked about, with a name for each."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dptransfer.cli.encoding import examples_in, is_table, refuse_unreadable
from dptransfer.cli.inputs import encoded
from dptransfer.errors import ArgumentError, Incompatible

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dptransfer.encoders import Encoder
    from dptransfer.release import PrivateClassifier

    NamedRows = tuple[list[str], NDArray[Any]]


def rows_to_predict(
    released: PrivateClassifier, inputs: Sequence[Path], spec: str | None, device: str, batch: int
) -> NamedRows:
    """Names and rows of all inputs, in order; images and texts are encoded as the release records.

    Args:
        released: the model.
        inputs: all files of rows, or all images, folders and text files.
        spec: where the encoder is, when the release's record does not say.
        device: where the encoder runs.
        batch: examples encoded at a time.
    """
    import numpy as np

    for path in inputs:
        path.stat()  # a missing file is an error before the encoder is loaded
    tables = [is_table(path) for path in inputs]
    if any(tables) and not all(tables):
        raise ArgumentError(
            "Inputs must be all rows or all images; these are mixed. Predict them separately."
        )
    if all(tables):
        parts = [_from_table(released, path) for path in inputs]
    else:
        encoder = _encoder(released, spec, device)
        parts = [_from_examples(group, encoder, batch) for group in _grouped(inputs)]
    return [name for names, _ in parts for name in names], np.concatenate([rows for _, rows in parts])


def _from_table(released: PrivateClassifier, path: Path) -> NamedRows:
    from dptransfer.data import read_table, require_same_encoder

    table = read_table(path)
    require_same_encoder(released.encoder, table.encoder, names=("The model", f"'{path}'"))
    if table.rows.shape[1] != released.dimension:
        raise Incompatible(
            f"Rows must have the model's dimension, {released.dimension}; those in '{path}' have "
            f"{table.rows.shape[1]}. Encode them with the model's encoder."
        )
    names = table.sources or tuple(f"{path}:{number}" for number in range(len(table.rows)))
    return list(names), table.rows


def _encoder(released: PrivateClassifier, spec: str | None, device: str) -> Encoder:
    from dptransfer.encoders import encoder_of, get_encoder

    delta = released.encoder_delta
    recorded = released.facts.encoder if delta is None else delta.base
    if recorded is not None:
        return encoder_of(recorded, device=device, spec=spec, delta=delta)
    if spec is None:
        raise ArgumentError(
            "Images and texts need the encoder the model was fitted with, and the release names none. "
            "Name it yourself, for example: --encoder efficientnet-lite0"
        )
    encoder = get_encoder(spec, device=device)
    if encoder.dimension != released.dimension:
        raise Incompatible(
            f"The encoder must give rows of the model's dimension, {released.dimension}; "
            f"'{spec}' gives {encoder.dimension}. Name the one the model was fitted with."
        )
    return encoder


def _grouped(inputs: Sequence[Path]) -> list[Path | Sequence[Path]]:
    """Single images together, so that they share batches; anything else by itself."""
    from dptransfer.data.images import IMAGE_ENDINGS

    if all(path.is_file() and path.suffix.lower() in IMAGE_ENDINGS for path in inputs):
        return [inputs]
    return list(inputs)


def _from_examples(group: Path | Sequence[Path], encoder: Encoder, batch: int) -> NamedRows:
    from dptransfer.data import ImageList, find_images

    if isinstance(group, Path):
        found = examples_in(group, encoder, None, labelled=False)
    else:
        found = find_images(group)
    rows = encoded(found, encoder, batch=batch, refuse=_refuse)
    if isinstance(found, ImageList):
        return [str(path) for path in found.paths], rows
    return list(found.texts), rows


def _refuse(names: Sequence[str]) -> None:
    """By name: the answers would name them too."""
    refuse_unreadable(names, remedy="Repair them, or leave them out.")
