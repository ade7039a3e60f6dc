"""Rules of encoders: the row of an item is a function of that item alone, bit for bit."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np

from dptransfer.base.types import Picture
from dptransfer.data import EncoderIdentity
from dptransfer.encoders import Encoder, EncoderNote, ImageEncoder, rows_depend_on_neighbours
from dptransfer.testing.contract import require, run_checks


@dataclass(frozen=True)
class _Trial:
    encoder: Any
    """Nothing is known of it."""
    note: EncoderNote | None
    items: Sequence[Any]


def check_encoder(
    encoder: object, items: Sequence[object] | None = None, *, skip: Collection[str] = ()
) -> None:
    """Raise `ContractBroken`, which is an AssertionError, unless an encoder keeps every rule of encoders.

    Args:
        encoder: an encoder, a class or function that makes one, or its `EncoderNote`.
        items: at least four different images (`PIL.Picture`, RGB) or texts; made here if not given.
        skip: rules of `ENCODER_CHECKS` that do not apply; say why where you skip one.
    """
    note = encoder if isinstance(encoder, EncoderNote) else None
    made: Any = encoder if note is None else note.encoder()
    if isinstance(made, type) or not isinstance(made, Encoder):
        made = made()
    named = getattr(getattr(made, "identity", None), "name", type(made).__name__)
    if items is None:
        items = _sample_images() if getattr(made, "kind", "image") == "image" else _sample_texts()
    run_checks(_Trial(made, note, list(items)), f"The encoder '{named}'", ENCODER_CHECKS, skip)


def _sample_images() -> list[Picture]:
    """Images of several sizes: noise, a gradient, black, white and one of a single pixel."""
    from PIL import Image

    rng = np.random.default_rng(0)
    noise = [rng.integers(0, 256, (*size, 3), dtype=np.uint8) for size in ((64, 64), (40, 90), (7, 5))]
    ramp = np.broadcast_to(np.arange(80, dtype=np.uint8)[:, None, None], (80, 50, 3)).copy()
    plain = [np.full((32, 32, 3), 0, np.uint8), np.full((32, 32, 3), 255, np.uint8)]
    return [Image.fromarray(one) for one in (*noise, ramp, *plain, np.full((1, 1, 3), 90, np.uint8))]


def _sample_texts() -> list[str]:
    """Texts of several lengths and scripts, an empty one among them."""
    long = "differential privacy bounds what one example can change. " * 40
    return ["a", "two words", "", "Übergröße, 東京, 🙂", long, "a\nb\tc", "two words!"]


def _check_identity(trial: _Trial) -> None:
    encoder = trial.encoder
    for name in ("identity", "dimension", "kind", "encode"):
        require(hasattr(encoder, name), f"it has no `{name}`")
    identity = encoder.identity
    require(isinstance(identity, EncoderIdentity), "`identity` is not an EncoderIdentity")
    require(identity.name and identity.transform, "its identity has no name, or no transform")
    hex_digits = re.fullmatch("[0-9a-f]{64}", identity.weights)
    require(hex_digits, "`identity.weights` is no SHA-256 of 64 hex digits")
    require(encoder.kind in ("image", "text"), f"`kind` is {encoder.kind!r}")
    width = encoder.dimension
    require(isinstance(width, int) and width > 0, "`dimension` is no positive integer")
    if trial.note is not None:
        require(trial.note.name == identity.name, "its note has another name than its identity")
        require(trial.note.kind == encoder.kind, "its note has another kind")
        require(trial.note.dimension in (None, encoder.dimension), "its note has another dimension")


def _check_rows(trial: _Trial) -> None:
    rows = trial.encoder.encode(trial.items)
    require(isinstance(rows, np.ndarray) and rows.dtype.kind == "f", "rows are no array of floats")
    wanted = (len(trial.items), trial.encoder.dimension)
    require(rows.shape == wanted, f"rows have the shape {rows.shape}; items and `dimension` say {wanted}")
    require(np.isfinite(rows).all(), "a row is not finite")
    require(len(np.unique(rows, axis=0)) > 1, "all items have the same row")


def _check_repeatable(trial: _Trial) -> None:
    first, again = np.array(trial.encoder.encode(trial.items)), trial.encoder.encode(trial.items)
    require(np.array_equal(first, again), "the same items have other rows the second time")
    remade = getattr(trial.encoder, "made_by", None)
    if remade is not None:
        other = remade()
        require(other.identity == trial.encoder.identity, "made again by `made_by`, it has another identity")
        same = np.array_equal(other.encode(trial.items), first)
        require(same, "made again by `made_by`, it has other rows")


def _check_neighbours(trial: _Trial) -> None:
    for items in (trial.items, trial.items[: len(trial.items) // 2 or 1]):
        mixed = rows_depend_on_neighbours(trial.encoder, items)
        require(not mixed, "an item's row changes with its place in the batch, or with the other items there")


def _check_one_by_one(trial: _Trial) -> None:
    """One that says that it computes items alone may have its batches cut anywhere."""
    if not getattr(trial.encoder, "one_by_one", False):
        return
    whole = np.array(trial.encoder.encode(trial.items))
    for size in (1, 2, 3):
        chunks = [trial.items[start : start + size] for start in range(0, len(trial.items), size)]
        cut = np.concatenate([np.array(trial.encoder.encode(chunk)) for chunk in chunks])
        same = np.array_equal(cut, whole)
        require(same, f"in batches of {size} rows are others, though it is `one_by_one`")


def _check_threads(trial: _Trial) -> None:
    if not isinstance(trial.encoder, ImageEncoder):
        return
    alone = [np.array(trial.encoder.prepare(item)) for item in trial.items]
    with ThreadPoolExecutor(4) as threads:
        together = list(threads.map(trial.encoder.prepare, [*trial.items] * 4))
    same = all(np.array_equal(own, other) for own, other in zip(alone * 4, together, strict=True))
    require(same, "`prepare` gives other arrays in several threads")


ENCODER_CHECKS: Mapping[str, Callable[[_Trial], None]] = {
    "it says what it is": _check_identity,
    "rows are finite floats, one for each item": _check_rows,
    "the same item has the same row": _check_repeatable,
    "a row depends on its own item alone": _check_neighbours,
    "what computes items one by one may be cut anywhere": _check_one_by_one,
    "images are prepared in threads as without": _check_threads,
}
"""Each rule, in words, with the function that raises where an encoder breaks it."""
