"""Pictures to files to embeddings, kept in the demo's folder so that a second run is quick.

The pictures are written as a user has them, one folder per class, and encoded as a user would encode
them.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from PIL import Image

from dptransfer.base.types import AnyArray, Integers
from dptransfer.data import EncoderIdentity, Labelled, PrivateEmbeddings, PublicEmbeddings, read_store
from dptransfer.encoders import EncodeOptions, Encoder, encode_examples
from dptransfer.errors import DataError, DPTransferError
from dptransfer.sources import ImageList, read_private, read_public
from dptransfer_lab.demo.sets import DemoSets, PictureSet

RECORD = ".dptransfer-demo.json"
PARTS = ("private", "test", "public")
Progress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Embedded:
    """A demonstration's rows.

    Attributes:
        private: the rows to be protected.
        public: the pool, unlabelled.
        test: rows to test on.
        test_labels: their classes, as positions.
        reused: the parts that an earlier run had encoded.
    """

    private: PrivateEmbeddings
    public: PublicEmbeddings
    test: AnyArray
    test_labels: Integers
    reused: tuple[str, ...]


def claim_folder(out: Path) -> None:
    """Make the demo's folder; refuse one that holds anything else, for the demo overwrites what is there."""
    if out.is_dir() and any(out.iterdir()) and not (out / RECORD).is_file():
        raise DataError(
            f"The demo needs a folder of its own; '{out}' holds other things. Pass another --out."
        )
    try:
        out.mkdir(parents=True, exist_ok=True)
        (out / RECORD).touch()
    except OSError as problem:
        raise DataError(f"The demo must be able to write to '{out}'; {problem.strerror}.") from None


def embed(sets: DemoSets, encoder: Encoder, out: Path, *, progress: Progress) -> Embedded:
    """Encode the three sets, or read what an earlier run left.

    Args:
        sets: the pictures.
        encoder: the public encoder.
        out: the demo's folder.
        progress: called with a part's name, pictures done and pictures in all.
    """
    record, reused = _read_record(out), []
    for part in PARTS:
        pictures: PictureSet = getattr(sets, part)
        store, digest = out / f"{part}.emb", pictures.digest()
        if record.get(part) == digest and _encoder_of(store) == encoder.identity:
            reused.append(part)
            progress(part, len(pictures), len(pictures))
            continue
        listed = _write_pictures(out / "images" / part, pictures, sets.classes if part != "public" else None)
        name = sets.name if part == "private" else None
        options = EncodeOptions(name=name, overwrite=True, public=part == "public")
        encode_examples(listed, encoder, store, options, progress=partial(progress, part))
        record[part] = digest
        (out / RECORD).write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    test = read_store(out / "test.emb")
    assert test.labels is not None
    return Embedded(
        private=read_private(out / "private.emb"),
        public=read_public(out / "public.emb", name=f"{sets.name}-pool"),
        test=test.rows,
        test_labels=test.labels,
        reused=tuple(reused),
    )


def _encoder_of(store: Path) -> EncoderIdentity | None:
    try:
        return read_store(store).encoder
    except DPTransferError:
        return None


def _write_pictures(folder: Path, pictures: PictureSet, classes: tuple[str, ...] | None) -> ImageList:
    """One PNG a picture, in a folder per class where there are classes, and no other; a right one stays."""
    labelled = None if classes is None or pictures.labels is None else Labelled(pictures.labels, classes)
    homes = [""] * len(pictures) if labelled is None else labelled.names.tolist()
    for home in classes or ("",):
        (folder / home).mkdir(parents=True, exist_ok=True)
    paths = [folder / home / f"{name}.png" for home, name in zip(homes, pictures.names, strict=True)]
    for path in {*folder.rglob("*.png")}.difference(paths):
        path.unlink()
    for path, pixels in zip(paths, pictures.pixels, strict=True):
        buffer = io.BytesIO()
        Image.fromarray(pixels).save(buffer, format="PNG")
        content = buffer.getvalue()
        # An unchanged file keeps its time, by which an interrupted encoding recognises it.
        if not path.is_file() or path.read_bytes() != content:
            path.write_bytes(content)
    return ImageList(tuple(paths), labelled, root=folder)


def _read_record(out: Path) -> dict[str, str]:
    try:
        found = json.loads((out / RECORD).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
