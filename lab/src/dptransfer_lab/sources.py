"""From what a study calls a source to arrays on the shelf: files, the embedded demo data, or the hub."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dptransfer.data import PublicEmbeddings, read_public
from dptransfer.data.embeddings import content_digest
from dptransfer.demo.sets import balanced_split
from dptransfer.errors import DataError, MissingDependency
from dptransfer_lab.demo_data import demo_digits, demo_glyphs
from dptransfer_lab.hub import HUB, hub_source
from dptransfer_lab.shelf import Stored, kept
from dptransfer_lab.study import DataSet, Source

DEMO = "demo"
_SEED = 20_251  # of held-out and balanced test sets: the same rows in every study
Found = str | Path


def data_set(data: DataSet, encoder: str, folders: Sequence[Path]) -> Stored:
    """The data set's rows by this encoder, with test rows.

    Args:
        data: the study's entry.
        encoder: which of its sources.
        folders: where relative paths are looked for, in this order.
    """
    source = data.source[encoder]
    cut = {"test_share": data.test_share, "balanced_test": data.balanced_test}
    if source.train == DEMO:
        return kept({"demo": "digits", "encoder": encoder, **cut}, lambda: _packed(demo_digits(encoder), cut))
    train = _located(source.train, encoder, folders)
    test = None if source.test is None else _located(source.test, encoder, folders)
    key = {"train": _stamp(train), "test": None if test is None else _stamp(test), "role": "data", **cut}
    return kept(key, lambda: _packed(_read_data(train, test), cut))


def public_pool(source: Source, encoder: str, folders: Sequence[Path]) -> Stored:
    """The pool's rows by this encoder; a file that can be memory-mapped as it is is not copied."""
    if source.train == DEMO:
        return kept({"demo": "glyphs", "encoder": encoder}, lambda: _packed_pool(demo_glyphs(encoder)))
    path = _located(source.train, encoder, folders)
    file = path / "rows.npy" if (path / "rows.npy").is_file() else path
    if file.suffix == ".npy":
        pool = read_public(path)
        return _pool(pool, {"rows": str(file.resolve())})
    return kept({"train": _stamp(path), "role": "pool"}, lambda: _packed_pool(_part(path, "train")))


def _located(source: str, encoder: str, folders: Sequence[Path]) -> Path:
    if source.startswith(HUB):
        return hub_source(source, encoder)
    tried = [folder / source for folder in folders]  # an absolute path stays itself
    found = next((path for path in tried if path.exists()), None)
    if found is None:
        places = " and ".join(f"'{folder}'" for folder in folders)
        raise DataError(
            f"'{source}' must be next to the study or in the data folder; it is not in {places}. "
            "Pass --data FOLDER, or set DPTRANSFER_DATA."
        )
    return found


def _stamp(path: Path) -> dict[str, Any]:
    """What changes when a file is written again, without reading it."""
    file = path / "manifest.json" if (path / "manifest.json").is_file() else path
    found = file.stat()
    return {"path": str(file.resolve()), "size": found.st_size, "changed": found.st_mtime_ns}


def _part(path: Path, split: str, **declared: Any) -> PublicEmbeddings:
    """One split of a file, or all of one that has none."""
    try:
        return read_public(path, split=split, **declared)
    except DataError:
        return read_public(path, **declared)


def _read_data(train: Path, test: Path | None) -> _Parts:
    rows = _part(train, "train")
    if rows.labels is None or rows.classes is None:
        raise DataError(f"'{train}': a data set must have labels; this has none. Write them into the file.")
    tested: PublicEmbeddings | None
    if test is not None:
        tested = _part(test, "test", classes=rows.classes)
    else:
        try:
            tested = read_public(train, split="test", classes=rows.classes)
        except DataError:
            tested = None
    if tested is None:
        return _Parts(rows, None)
    if tested.labels is None or tested.dimension != rows.dimension:
        raise DataError(f"'{test or train}': test rows must have labels and the training rows' dimension.")
    return _Parts(rows, tested)


class _Parts:
    """Training rows and, where there are some, test rows; labels are public here."""

    def __init__(self, train: PublicEmbeddings, test: PublicEmbeddings | None) -> None:
        assert train.labels is not None
        assert train.classes is not None
        self.classes = train.classes
        self.encoder = train.encoder
        self.rows, self.labels = train.rows, train.labels
        self.test_rows = None if test is None else test.rows
        self.test_labels = None if test is None else test.labels


def _packed(
    parts: _Parts | tuple[PublicEmbeddings, PublicEmbeddings], cut: Mapping[str, Any]
) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    if isinstance(parts, tuple):
        parts = _Parts(*parts)
    rows, labels = parts.rows, parts.labels
    test_rows, test_labels = parts.test_rows, parts.test_labels
    rng = np.random.default_rng(_SEED)
    if test_rows is None or test_labels is None:
        held = _held_out(labels, cut["test_share"], rng)
        test_rows, test_labels = rows[held], labels[held]
        rows, labels = np.delete(rows, held, axis=0), np.delete(labels, held)
    if cut["balanced_test"]:
        fewest = int(np.bincount(test_labels, minlength=len(parts.classes)).min())
        if fewest == 0:
            raise DataError("A balanced test set needs test rows of each class; a class has none.")
        _, chosen = balanced_split(test_labels, fewest, rng=rng)
        test_rows, test_labels = test_rows[chosen], test_labels[chosen]
    arrays = {"rows": rows, "labels": labels, "test_rows": test_rows, "test_labels": test_labels}
    fields = {
        "fingerprint": content_digest(*arrays.values()),
        "classes": list(parts.classes),
        "encoder": None if parts.encoder is None else parts.encoder.to_dict(),
    }
    return arrays, fields


def _held_out(labels: NDArray[np.int64], share: float, rng: np.random.Generator) -> NDArray[np.int64]:
    """Positions of a share of each class; a class of one row keeps it for training."""
    chosen = [
        rng.choice(places, size=min(max(1, round(share * len(places))), len(places) - 1), replace=False)
        for places in (np.flatnonzero(labels == name) for name in np.unique(labels))
        if len(places) > 1
    ]
    if not chosen:
        raise DataError("Test rows must come from somewhere; no class has two rows. Name a test file.")
    return np.sort(np.concatenate(chosen))


def _packed_pool(pool: PublicEmbeddings) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    stored = _pool(pool, {})
    return {"rows": pool.rows}, {name: value for name, value in stored.to_json().items() if name != "files"}


def _pool(pool: PublicEmbeddings, files: Mapping[str, str]) -> Stored:
    return Stored(
        fingerprint=pool.fingerprint,
        files=files,
        encoder=None if pool.encoder is None else pool.encoder.to_dict(),
        rows_fingerprint=pool.fingerprint,
    )


Told = Callable[[str], None]


def shelved(
    study_data: Sequence[DataSet],
    pools: Mapping[str, Mapping[str, Source]],
    folders: Sequence[Path],
    *,
    reading: Told = lambda text: None,
    missing: Told | None = None,
) -> dict[tuple[str, str, str], Stored]:
    """Every array a study needs, by role ('data' or 'pool'), name and encoder.

    Args:
        study_data: the study's data sets.
        pools: the sources of its pools, by name and encoder.
        folders: where relative paths are looked for, in this order.
        reading: told what is about to be read.
        missing: told what cannot be had, and how to get it; that data set is then left out. Without it, a
            missing data set is an error.
    """
    wanted = [(data, encoder) for data in study_data for encoder in data.source]
    ready = [one for one in wanted if _is_there(*one, pools, folders, missing)]
    found: dict[tuple[str, str, str], Stored] = {}
    for data, encoder in ready:
        reading(f"{data.name} ({encoder})")
        found["data", data.name, encoder] = data_set(data, encoder, folders)
        for name in data.pool:
            if name in pools and ("pool", name, encoder) not in found:
                reading(f"{name} ({encoder})")
                found["pool", name, encoder] = public_pool(pools[name][encoder], encoder, folders)
    if not found:
        raise DataError("A study needs at least one data set that is there; all of them are missing.")
    return found


def _is_there(
    data: DataSet,
    encoder: str,
    pools: Mapping[str, Mapping[str, Source]],
    folders: Sequence[Path],
    missing: Told | None,
) -> bool:
    """Whether every file is there; asked, and fetched, before minutes are spent on reading the first."""
    used = [data.source[encoder], *(pools[name][encoder] for name in data.pool if name in pools)]
    try:
        for file in (file for one in used for file in (one.train, one.test) if file is not None):
            if file != DEMO:
                _located(file, encoder, folders)
    except (DataError, MissingDependency) as problem:
        if missing is None:
            raise
        missing(f"{data.name} ({encoder}) is left out. {problem}")
        return False
    return True
