"""Find and encode the images and texts at a path.

Names of private images that cannot be read go to a file for the owner's eyes, never into a message: it may
end up in a log, a ticket or a chat, and the name of a private file is as private as the file; so is how many
there are. That there are any is told, since a fit must not silently learn from rows of zeros; it is told
before anything is charged, to whoever runs the command on the data.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from dptransfer.base.progress import progress_bar
from dptransfer.base.worker_env import usable_cores
from dptransfer.data import atomic_files
from dptransfer.data.atomic_files import cache_folder, claim, discard, owner_only, remove_draft
from dptransfer.data.emb_folder import read_store
from dptransfer.data.examples import slabs
from dptransfer.data.grey_levels import GreyRange
from dptransfer.data.labels import Classes, Labelled, LabelledList
from dptransfer.data.tables import NOBODY, USUAL_COLUMNS, Columns
from dptransfer.encoders.encoder import Encoder, Kind, blank_picture
from dptransfer.encoders.shards import EncodeOptions, EncodeReport, encode_examples
from dptransfer.errors import ArgumentError, DataError, LedgerError, PrivateOverlap
from dptransfer.sources.archives import archive_in
from dptransfer.sources.decode import problem_of, without_warnings
from dptransfer.sources.listings import ImageList, TextList, find_images, find_texts
from dptransfer.sources.readers import read_table

GREYS = "declare --grey-range LOW,HIGH where that is the reason"
_ALLOWED = "'dptransfer encode --allow-unreadable' counts each as a row of zeros"
_REPAIR = f"Repair or remove them, {GREYS}, or encode first: {_ALLOWED}."
_NAMED = 5  # of public pictures that cannot be read
_SAME = 1e-4  # rows of one picture in calls of different sizes differ by less

_POOLS = "pool-1"  # part of the folder's name, so that a change of the encoding makes new ones
_MOST_POOLS = 4  # that stay
_IN_USE = 24 * 3600  # seconds for which a pool stays in any case: somebody may be reading it


def examples_in(
    path: Path,
    by: Encoder | Kind,
    columns: Columns = USUAL_COLUMNS,
    *,
    classes: Classes | None = None,
    labelled: bool,
) -> ImageList | TextList:
    """The images or texts at `path`, as an encoder takes them; without `labelled` no label is looked at.

    Args:
        path: where they are.
        by: what will encode them, or the kind of encoder; texts are refused for an encoder of images.
        columns: those of a table, and what tells whose each example is.
        classes: the declared list.
        labelled: whether they come with labels.
    """
    kind = by if isinstance(by, str) else by.kind
    if not isinstance(by, str) and kind == "image" and (columns.text or path.suffix.lower() == ".txt"):
        what = "Texts need" if columns.text is None else "--text-column needs"
        rule = f"{what} an encoder for texts; '{by.identity.name}' is for images."
        raise ArgumentError(f"{rule} Example: --encoder minilm")
    person = None if columns.person == NOBODY else columns.person
    find = find_texts if kind == "text" else find_images
    return find(path, replace(columns, person=person), classes=classes, labelled=labelled)


def labels_of(found: LabelledList, path: Path, what: str) -> Labelled:
    """The labels of what was found; an error where there are none."""
    if found.labelled is None:
        remedy = "Use a folder per class, or a CSV with a column 'label' (another name: --label-column NAME)."
        raise DataError(f"'{path}': {what} must have labels; these have none. {remedy}")
    return found.labelled


def encode_to(
    out: Path,
    found: ImageList | TextList,
    encoder: Encoder,
    options: EncodeOptions,
    *,
    refuse: Callable[[Collection[str]], None] | None = None,
) -> EncodeReport:
    """Encode into an `.emb` folder; after a kill the same call goes on where it stopped.

    Args:
        out: the folder.
        found: the images or texts.
        encoder: what encodes them.
        options: batch, shards, workers and the like; unreadable public images are left out.
        refuse: raises if it is given names of images; asked about those that cannot even be recognised,
            before the work. Those that break off in the middle are in the report.
    """
    with progress_bar("Encoding", count_is_private=not options.public) as step:
        if isinstance(found, ImageList):
            options = replace(options, drop_unreadable=options.public)
            if refuse is not None:
                refuse(unrecognised_images(found, encoder.identity.grey_range))
        return encode_examples(found, encoder, out, options, progress=step)


@contextmanager
def kept_rows(
    found: ImageList | TextList, encoder: Encoder, path: Path, out: Path, *, public: bool = False
) -> Iterator[Path]:
    """Rows of images or texts in an `.emb` folder beside these, until whoever asked for them is done.

    Where nothing can be written there, the folder is beside `out`, or in the user's cache folder. One process
    at a time works with it.

    It is gone afterwards. What a killed or interrupted run had encoded stays, or one that the ledger refused,
    all of it until the run is done, and the same call goes on from there; but of public data in which
    private examples were found nothing stays.

    Args:
        found: the images or texts.
        encoder: what encodes them.
        path: where they are.
        out: what the rows are for; its name makes that of the folder.
        public: nobody's data; otherwise the folder is the owner's alone.
    """
    home = _home(held_in(path), out)
    refuse = refuse_public if public else partial(refuse_problems, beside=home, remedy=_REPAIR)
    # A name that is nobody else's: of private rows or public ones, for this `out` and none of the same name.
    rows = _beside(home, f".{'public-' if public else ''}rows-of-{out.name}-{_digest(out)[:8]}.emb")
    done = False
    with claim(rows):
        try:
            options = EncodeOptions(overwrite=True, public=public, keep_partial=True)
            report = encode_to(rows, found, encoder, options, refuse=refuse)
            done = True
            refuse(report.unreadable)
            if not public and encoder.kind == "image":
                _require_content(rows, encoder)
            yield rows
        except (KeyboardInterrupt, LedgerError) as stopped:
            done = public and isinstance(stopped, PrivateOverlap)
            if isinstance(stopped, LedgerError) and not public:  # another name or budget is soon tried
                where = f"The rows stay in '{_beside(rows, '.partial')}' for the next try"
                stopped.add_note(f"{where}; delete them if there is none.")
            raise
        finally:
            discard(rows, rows)
            if done:
                remove_draft(rows)


def _require_content(folder: Path, encoder: Encoder) -> None:
    """Raise if there are private pictures, and all are black; for the owner, before anything is charged."""
    rows, black = read_store(folder, verify=False).rows, encoder.encode([blank_picture()])
    if len(rows) and all(np.allclose(rows[slab], black, _SAME, _SAME) for slab in slabs(rows)):
        rule = "Pictures must show something; all of these are black."
        raise DataError(f"{rule} For files of more than 8 bits declare --grey-range LOW,HIGH.")


@contextmanager
def pool_rows(found: ImageList | TextList, encoder: Encoder, path: Path, out: Path) -> Iterator[Path]:
    """Rows of public images or texts in an `.emb` folder, from the cache where they are in it.

    Pools are cached by content, so that one is encoded once for many fits. It is cached when the block has
    ended without an error, and never before: a pool that a fit refuses, since private examples are in it,
    leaves nothing. A cache that cannot be written costs time, nothing else. Arguments as for `kept_rows`,
    which makes what is not cached.
    """
    place = cache_folder() / f"{_POOLS}-{_pool_key(found, encoder)}.emb"
    if _is_whole(place):
        yield place
        return
    with kept_rows(found, encoder, path, out, public=True) as rows:
        yield rows
        _cache(rows, place)


def _pool_key(found: ImageList | TextList, encoder: Encoder) -> str:
    """A digest of all that the folder depends on: encoder, contents, names, and classes of class folders."""
    described = {
        "encoder": encoder.identity.to_dict(),
        "contents": list(found.texts) if isinstance(found, TextList) else found.source_digests.tolist(),
        "names": [] if isinstance(found, TextList) else list(found.sources()),
        "labels": None if found.labelled is None else found.labelled.positions.tolist(),
        "classes": None if found.classes is None else list(found.classes),
    }
    return hashlib.sha256(json.dumps(described, sort_keys=True).encode()).hexdigest()


def _is_whole(place: Path) -> bool:
    """Whether the pool is there and undamaged; one that is not is removed."""
    if not place.exists():
        return False
    with suppress(DataError, OSError):
        read_table(place)
        os.utime(place)  # what is used stays longest
        return True
    shutil.rmtree(place, ignore_errors=True)
    return False


def _cache(rows: Path, place: Path) -> None:
    with suppress(OSError, DataError):  # a full disk, say, or another process that writes it just now
        with atomic_files.replaced_whole(place) as fresh:
            shutil.copytree(rows, fresh, dirs_exist_ok=True)
        _drop_old(place.parent)


def _drop_old(folder: Path) -> None:
    """Remove all but the pools that were used last, and those of the last day."""
    pools = sorted(folder.glob(f"{_POOLS}-*.emb"), key=lambda one: one.stat().st_mtime, reverse=True)
    for old in pools[_MOST_POOLS:]:
        if time.time() - old.stat().st_mtime > _IN_USE:
            shutil.rmtree(old, ignore_errors=True)


def _home(data: Path, out: Path) -> Path:
    """Where rows are kept: beside the data, else beside `out`, else in the user's cache folder."""
    for place in (data, out):
        above = next(folder for folder in place.absolute().parents if folder.exists())
        if os.access(above, os.W_OK):
            return place
    return cache_folder() / f"{data.name}-{_digest(data)[:16]}"


def _digest(path: Path) -> str:
    return hashlib.sha256(os.fsencode(path.absolute())).hexdigest()


def held_in(path: Path) -> Path:
    """The file or folder that is on the disk: for 'photos.zip/train', the archive."""
    archive = archive_in(path)
    return path if archive is None else archive[0]


def same_place(path: Path, other: Path) -> bool:
    """Whether both are one file or folder, or one holds the other, on the disk or in one archive."""
    one, two = archive_in(path) or (path, None), archive_in(other) or (other, None)
    if not (one[0].exists() and two[0].exists()):
        return False
    if not one[0].samefile(two[0]):
        first, second = one[0].resolve(), two[0].resolve()
        return first.is_relative_to(second) or second.is_relative_to(first)
    if one[1] is None or two[1] is None:
        return True
    return one[1].is_relative_to(two[1]) or two[1].is_relative_to(one[1])


def unrecognised_images(images: ImageList, grey_range: GreyRange | None) -> dict[str, str]:
    """Images that would be refused, each with the reason; a look at their first bytes, before the work."""
    with without_warnings(), ThreadPoolExecutor(usable_cores()) as threads:
        problems = threads.map(lambda path: problem_of(path, grey_range), images.paths)
        found = zip(images.names(), problems, strict=True)
        return {name: problem for name, problem in found if problem is not None}


def note_problems(names: Collection[str], beside: Path) -> Path | None:
    """Write the names, one a line, where their owner alone can read them; without names, forget old ones.

    Where they come with reasons, each has its own behind a tab.
    """
    file = _beside(beside, ".problems.txt")
    if not names and not os.path.lexists(file):  # on a disk that cannot be written even that is an error
        return None
    try:
        file.unlink(missing_ok=True)  # so that the mode is ours, whoever made the old one
        if not names:
            return None
        with open(file, "x", encoding="utf-8", errors="surrogateescape", opener=owner_only) as stream:
            for name in names:
                why = f"\t{names[name]}" if isinstance(names, Mapping) else ""
                stream.write((repr(name) if "\n" in name else name) + why + "\n")
    except OSError as problem:
        why = f"({problem.strerror or problem}). Make that place writable, and run again."
        raise DataError(f"Names of unreadable images go to '{file}', which failed {why}") from None
    return file


def refuse_public(names: Collection[str]) -> None:
    """Raise if there are any, and name them, for they are nobody's secret; the first one's reason is told."""
    if names:
        ordered = list(names)
        rest = f" and {len(ordered) - _NAMED} more" if len(ordered) > _NAMED else ""
        listed = ", ".join(f"'{name}'" for name in ordered[:_NAMED])
        why = f" {names[ordered[0]]}" if isinstance(names, Mapping) else ""
        some = f"{len(ordered)} cannot be read: {listed}{rest}.{why}"
        raise DataError(f"Images must be readable; {some} Repair them, or leave them out.")


def refuse_problems(names: Collection[str], beside: Path, *, remedy: str) -> None:
    """Raise if there are any; the message says where their names are."""
    file = note_problems(names, beside)
    if file is not None:
        where = f"Their names are in '{file}', for the owner's eyes."
        raise DataError(f"Images must be readable; some are not. {where} {remedy}")


def _beside(path: Path, ending: str) -> Path:
    whole = path.absolute()
    return whole.with_name(whole.name + ending) if whole.name else whole / ending.lstrip(".")
