"""From what a study calls a source to arrays on disk: files, the embedded demo data, or the hub.

Labels are read freely: this is for benchmarks on data whose labels are known, never for private ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dptransfer.base.types import AnyArray, JsonObject
from dptransfer.data import Columns, EncoderIdentity, PublicEmbeddings, content_digest, require_same_encoder
from dptransfer.errors import DataError, MissingDependency
from dptransfer.sources import read_public, read_table
from dptransfer_lab.demo.digits import CLASSES, demo_digits, demo_glyphs
from dptransfer_lab.hub import HUB, hub_source
from dptransfer_lab.pictures import read_pictures, stamp_of_folder, with_rows
from dptransfer_lab.stored import Stored, cached_arrays
from dptransfer_lab.study import DataSet, Source, Study
from dptransfer_lab.tasks import drawn_by_class

DEMO = "demo"
_SEED = 20_251  # of held-out and balanced test sets: the same rows in every study
Told = Callable[[str], None]
Arrays = dict[str, AnyArray]
Packed = tuple[Stored, Arrays]


def stored_arrays(
    study: Study, folders: Sequence[Path], *, reading: Told = lambda text: None, missing: Told | None = None
) -> dict[tuple[str, str, str], Stored]:
    """Every array a study needs, by role ('data' or 'pool'), name and encoder.

    Args:
        study: whose data sets and pools.
        folders: where relative paths are looked for, in this order.
        reading: told what is about to be read.
        missing: told what cannot be had, and how to get it; that data set is then left out. Without it, a
            missing data set is an error.
    """
    pools = {pool.name: pool.source for pool in study.pool}
    ready = []
    for data, encoder in [(one, encoder) for one in study.data for encoder in one.source]:
        used = [data.source[encoder], *(pools[name][encoder] for name in data.pool if name in pools)]
        try:
            for file in _files(used):  # asked, and fetched, before minutes are spent on reading the first
                _located(file, encoder, folders)
            ready.append((data, encoder))
        except (DataError, MissingDependency) as problem:
            if missing is None:
                raise
            missing(f"{data.name} ({encoder}) is left out. {problem}")
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


def data_set(data: DataSet, encoder: str, folders: Sequence[Path]) -> Stored:
    """The data set's rows by this encoder, with test rows.

    Args:
        data: the study's entry.
        encoder: which of its sources.
        folders: where relative paths are looked for, in this order.
    """
    source = data.source[encoder]
    cut: JsonObject = {"test_share": data.test_share, "balanced_test": data.balanced_test}
    cut |= {} if data.people is None else {"people": data.people}
    if source.train == DEMO:
        key = {"demo": "digits", "encoder": encoder, **cut}
        return cached_arrays(key, lambda: _packed(demo_digits(encoder), CLASSES, None, data))
    train = _located(source.train, encoder, folders)
    test = None if source.test is None else _located(source.test, encoder, folders)
    if source.size is not None:
        how = _reading(source)
        stamps = [_stamp(train), None if test is None else _stamp(test)]
        key = {"pictures": stamps, "encoder": encoder, **how, "role": "data", **cut}
        return cached_arrays(
            key, lambda: _packed(*_read_pictures(train, test, encoder, data.people, how), data)
        )
    key = {"train": _stamp(train), "test": None if test is None else _stamp(test), "role": "data", **cut}
    return cached_arrays(key, lambda: _packed(*_read_data(train, test, data.people), data))


def public_pool(source: Source, encoder: str, folders: Sequence[Path]) -> Stored:
    """The pool's rows by this encoder; a file that can be memory-mapped as it is is not copied."""
    if source.train == DEMO:
        return cached_arrays(
            {"demo": "glyphs", "encoder": encoder}, lambda: _packed_pool(demo_glyphs(encoder))
        )
    paths = [_located(file, encoder, folders) for file in (source.train, *source.more)]
    if source.size is not None:
        how = _reading(source)
        key = {"pictures": [_stamp(path) for path in paths], "encoder": encoder, **how, "role": "pool"}
        return cached_arrays(key, lambda: _picture_pool(paths, encoder, how))
    if source.more:
        return cached_arrays(
            {"train": [_stamp(path) for path in paths], "role": "pool"}, lambda: _joined(paths)
        )
    (path,) = paths
    shards = sorted(path.glob("rows-*.npy")) if path.suffix == ".emb" else []
    file = shards[0] if len(shards) == 1 else path
    if file.suffix == ".npy":
        return _pool(read_public(path), {"rows": str(file.resolve())})
    return cached_arrays(
        {"train": _stamp(path), "role": "pool"}, lambda: _packed_pool(part_of(path, "train"))
    )


def _files(sources: Sequence[Source]) -> Iterator[str]:
    for source in sources:
        yield from (file for file in (source.train, source.test, *source.more) if file not in (None, DEMO))


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


def _stamp(path: Path) -> JsonObject:
    """What changes when a file is written again, without reading it."""
    file = path / "manifest.json" if (path / "manifest.json").is_file() else path
    if file.is_dir():
        return stamp_of_folder(file)
    found = file.stat()
    return {"path": str(file.resolve()), "size": found.st_size, "changed": found.st_mtime_ns}


def part_of(path: Path, split: str, **declared: Any) -> PublicEmbeddings:
    """One split of a file, or all of one that has none."""
    return _part(path, split, None, **declared)[0]


def _part(path: Path, *splits: str | None, **declared: Any) -> tuple[PublicEmbeddings, str | None]:
    """The first of these splits that is there, None for a file without any; and which one it is."""
    try:
        return read_public(path, Columns(split=splits[0]), **declared), splits[0]
    except DataError:
        if len(splits) == 1:
            raise
        return _part(path, *splits[1:], **declared)


def _read_data(
    train: Path, test: Path | None, column: str | None
) -> tuple[Arrays, tuple[str | int, ...], EncoderIdentity | None]:
    """Arrays, with test rows and people where there are some; the classes; and who made the rows."""
    found, split = _part(train, "train", None, private_too=True)
    if found.labels is None or found.classes is None:
        raise DataError(f"'{train}': a data set must have labels; this has none. Write them into the file.")
    arrays = {"rows": found.rows, "labels": found.labels, **_people("people", train, split, column)}
    try:
        parts = ("test",) if test is None else ("test", None)
        tested, split = _part(test or train, *parts, classes=found.classes, private_too=True)
    except DataError:
        if test is not None:
            raise
    else:
        if tested.labels is None or tested.dimension != found.dimension:
            raise DataError(
                f"'{test or train}': test rows must have labels and the training rows' dimension."
            )
        arrays |= {"test_rows": tested.rows, "test_labels": tested.labels}
        if "people" in arrays:  # a test row without a person is somebody's only one
            alone = {"test_people": np.arange(len(tested.rows))}
            arrays |= {**alone, **_people("test_people", test or train, split, column)}
    return arrays, found.classes, found.encoder


def _reading(source: Source) -> JsonObject:
    """How its pictures are read; what is not declared is left out, so that what was kept before is found."""
    greys = {} if source.grey_range is None else {"grey_range": source.grey_range}
    return {"size": source.size, **greys}


def _read_pictures(
    train: Path, test: Path | None, encoder: str, people: str | None, how: JsonObject
) -> tuple[Arrays, tuple[str | int, ...], EncoderIdentity]:
    """The same of pictures: their pixels, and rows of the encoder beside them."""
    arrays, classes = read_pictures(train, people=people, **how)
    if classes is None or "labels" not in arrays:
        raise DataError(f"'{train}': a data set must have labels; these pictures have none. Name classes.")
    if test is not None:
        tested, _ = read_pictures(test, people=people, **how)
        if "labels" not in tested:
            raise DataError(f"'{test}': test pictures must have labels; these have none.")
        arrays |= {f"test_{name}": array for name, array in tested.items() if not name.startswith("test_")}
    whole, identity = with_rows(arrays, encoder, **how)
    return whole, classes, identity


def _picture_pool(paths: Sequence[Path], encoder: str, how: JsonObject) -> Packed:
    parts = [read_pictures(path, **how)[0]["pixels"] for path in paths]
    arrays, identity = with_rows({"pixels": np.concatenate(parts)}, encoder, **how)
    described, rows = _packed_pool(PublicEmbeddings(arrays["rows"], encoder=identity))
    return described, {**rows, "pixels": arrays["pixels"]}


def _people(name: str, path: Path, split: str | None, column: str | None) -> Arrays:
    """Whose each row is, under this name; nothing where neither the study nor an `.emb` folder tells."""
    if (path / "manifest.json").is_file():
        column = None
    elif column is None:
        return {}
    people = read_table(path, Columns(person=column, split=split), verify=False).people
    return {} if people is None else {name: people}


def _packed(
    arrays: Arrays,
    classes: tuple[str | int, ...],
    encoder: EncoderIdentity | None,
    data: DataSet,
) -> Packed:
    """Arrays with a test set: their own or a share that is held out, balanced where that is asked for."""
    rng = np.random.default_rng(_SEED)
    if "test_rows" not in arrays:
        arrays = _held_out(arrays, data.test_share, rng)
    if data.balanced_test:
        fewest = int(np.bincount(arrays["test_labels"], minlength=len(classes)).min())
        if fewest == 0:
            raise DataError("A balanced test set needs test rows of each class; a class has none.")
        chosen = drawn_by_class(arrays["test_labels"], fewest, rng=rng)
        arrays |= {name: array[chosen] for name, array in arrays.items() if name.startswith("test_")}
    return Stored(content_digest(*arrays.values()), classes=classes, encoder=encoder), arrays


def _held_out(arrays: Arrays, share: float, rng: np.random.Generator) -> Arrays:
    """A share of each class held out, or whole persons; a class of one row keeps it for training."""
    labels, people = arrays["labels"], arrays.get("people")
    if people is None:
        held = drawn_by_class(labels, lambda rows: min(max(1, round(share * rows)), rows - 1), rng=rng)
    else:
        held = _whole_persons(labels, people, share, rng)
    if not len(held):
        raise DataError("Test rows must come from somewhere; no class has two to share. Name a test file.")
    kept = {name: np.delete(array, held, axis=0) for name, array in arrays.items()}
    return {**kept, **{f"test_{name}": array[held] for name, array in arrays.items()}}


def _whole_persons(
    labels: NDArray[np.int64], people: NDArray[np.int64], share: float, rng: np.random.Generator
) -> NDArray[np.int64]:
    """The rows of persons, drawn until they have the share; whoever would leave a class empty stays."""
    left, wanted = np.bincount(labels), (1 - share) * len(labels)
    rows_of = np.split(np.argsort(people, kind="stable"), np.cumsum(np.bincount(people))[:-1])
    held = [np.arange(0)]
    for person in rng.permutation(len(rows_of)):
        rows = rows_of[person]
        after = left - np.bincount(labels[rows], minlength=len(left))
        if left.sum() > wanted and after[labels[rows]].all():
            held, left = [*held, rows], after
    return np.sort(np.concatenate(held))


def _joined(paths: Sequence[Path]) -> Packed:
    """The rows of several files as one pool; all of one encoder, as far as the files say."""
    parts = [part_of(path, "train") for path in paths]
    for part in parts[1:]:
        require_same_encoder(parts[0].encoder, part.encoder, names=("The first file", "another of the pool"))
    if len({part.dimension for part in parts}) > 1:
        raise DataError("The files of one pool must have rows of one dimension; these have not.")
    rows = np.concatenate([part.rows for part in parts])
    return _packed_pool(PublicEmbeddings(rows, encoder=parts[0].encoder))


def _packed_pool(pool: PublicEmbeddings) -> Packed:
    return _pool(pool, {}), {"rows": pool.rows}


def _pool(pool: PublicEmbeddings, files: Mapping[str, str]) -> Stored:
    return Stored(pool.fingerprint, files, encoder=pool.encoder, rows_fingerprint=pool.fingerprint)
