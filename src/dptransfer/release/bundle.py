"""Read, write and amend a release directory: weights, manifest and card.

release.json        everything but the arrays, with checksums of the other files (see `manifest`)
model.safetensors   the released arrays
README.md, card.html  the privacy and model card (see `card`), the first as a model hub reads it
MLmodel             what MLflow loads it by (see `exchange`)

The directory is replaced as a whole: it is written beside its place under a claim (`data.atomic_files`), each
file and the directory are flushed to the disk, and one step puts it in place. So a reader sees the release
before or after it was amended and never a mixture; the arrays, the steps and the guarantee stay as they are.

Reading opens regular files only, inside the directory only, up to a stated size only. safetensors refuses a
header that declares more than the file holds, overlapping arrays, gaps or bytes after them, before it
allocates anything; what it finds must then be what the manifest lists. No pickle is involved anywhere.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from dptransfer.base.document import one_line
from dptransfer.base.types import AnyArray, JsonObject
from dptransfer.data.atomic_files import replaced_whole, write_synced
from dptransfer.errors import DataError, DPTransferError, ReleaseError, UnsafeRelease
from dptransfer.exact.feature_map import describe, read_features
from dptransfer.privacy import event_from_dict, event_to_dict
from dptransfer.privacy.witnesses import Witnesses
from dptransfer.release import manifest as schema
from dptransfer.release.calibration import Calibration
from dptransfer.release.charged_evaluation import ChargedEvaluation
from dptransfer.release.classifier import PrivateClassifier, Provenance
from dptransfer.release.evaluation import Evaluation
from dptransfer.release.heads import describe_head, read_head
from dptransfer.release.hub import download_release, is_on_hub
from dptransfer.release.manifest import FILE_NAMES, READ_AGAIN, Manifest, current_versions, require
from dptransfer.release.owners import check_owners

LARGEST_FILE = dict.fromkeys(schema.TEXT_NAMES, 2 * schema.LARGEST_MANIFEST)
LARGEST_FILE |= {schema.MANIFEST_NAME: schema.LARGEST_MANIFEST, schema.WEIGHTS_NAME: 8 * 2**30}
_LARGEST_CONFUSION = 100
_GIVE_DIRECTORY = "Give the directory that 'dptransfer fit' or save() wrote."


def write_release(
    model: PrivateClassifier,
    path: str | Path,
    *,
    unsafe_for_publication: bool = False,
    evaluation: Evaluation | None = None,
    title: str | None = None,
    contact: str | None = None,
    license: str | None = None,
    overwrite: bool = False,
) -> Path:
    """Write a release directory, whole or not at all; return its path.

    Args:
        model: the classifier.
        path: the directory to make; missing parents are made too.
        unsafe_for_publication: write a seeded model all the same, stamped as not publishable.
        evaluation: test results for the card. Test rows are not protected.
        title: what the model or its data are called in public; the name in the ledger is not published.
        contact: whom to ask about it.
        license: of the model, such as 'apache-2.0'.
        overwrite: replace a release that is there already.
    """
    from dptransfer.release.exchange import text_files  # which reading needs not

    require_publishable(model, unsafe_for_publication)
    _require_same_classes(model, evaluation, model.charged)
    model = _stamped(model, {"title": title, "contact": contact, "license": license})
    _require_fit(model)
    contents = {schema.WEIGHTS_NAME: weights_bytes(_arrays(model))}
    contents |= {name: text.encode() for name, text in text_files(model, evaluation).items()}
    manifest = schema.manifest_bytes(_manifest_fields(model, evaluation, contents))
    target = Path(path)
    require_target(target, overwrite=overwrite)
    with release_errors(target), replaced_whole(target) as fresh:
        for name, content in {**contents, schema.MANIFEST_NAME: manifest}.items():
            write_synced(fresh / name, content)
    return target


def read_release(path: str | Path) -> PrivateClassifier:
    """Read a release directory; anything missing, changed, oversized or newer than this library is refused.

    Reading checks that the files are those that were written. Whether the guarantee follows from the
    recorded steps is checked by `verify_release`.
    """
    directory = require_directory(path)
    manifest = read_manifest_in(directory)
    for name in schema.TEXT_NAMES:
        read_recorded(directory, name, manifest)
    return _restored(manifest, read_recorded(directory, schema.WEIGHTS_NAME, manifest))


def read_evaluation(path: str | Path) -> Evaluation | None:
    """The test results that were written with a release, if any."""
    manifest = read_manifest_in(require_directory(path))
    try:
        return None if manifest.evaluation is None else Evaluation.from_dict(manifest.evaluation)
    except DPTransferError as problem:
        raise ReleaseError(f"The recorded evaluation must be readable: {problem} {READ_AGAIN}") from None


def release_digest(path: str | Path) -> str:
    """The SHA-256 that a release states of itself."""
    return read_manifest_in(require_directory(path)).digest


def require_publishable(model: PrivateClassifier, unsafe_for_publication: bool) -> None:
    """Raise for a seeded model unless the caller says that it will not be published."""
    if model.seeded and not unsafe_for_publication:
        raise UnsafeRelease(
            "A release must have noise that nobody can repeat; this one's noise came from a seed. Use "
            "SecureNoise() (the default), or pass unsafe_for_publication=True to write it for tests."
        )


def _stamped(model: PrivateClassifier, words: Mapping[str, str | None]) -> PrivateClassifier:
    """The model with a time and versions on record, where the method did not give them, and these words."""
    old = model.provenance
    given: dict[str, Any] = {name: one_line(text) for name, text in words.items() if text is not None}
    created = old.created or datetime.now(UTC).isoformat(timespec="seconds")
    stamped = replace(old, created=created, versions=dict(old.versions) or current_versions(), **given)
    return replace(model, provenance=stamped)


def _manifest_fields(
    model: PrivateClassifier, evaluation: Evaluation | None, contents: dict[str, bytes]
) -> JsonObject:
    provenance, guarantee, delta = model.provenance, model.guarantee, model.encoder_delta
    evaluation = evaluation and evaluation.for_release()
    if evaluation is not None and len(evaluation.classes) > _LARGEST_CONFUSION:
        evaluation = replace(evaluation, confusion=())  # it would be most of the file; the card has no use
    parts = {
        "evaluation": evaluation,
        "charged_evaluation": model.charged,
        "simulated_calibration": model.simulated,
        schema.WITNESSES: model.witnesses,
    }
    fields = {
        "schema_version": schema.SCHEMA_VERSION,
        "library_version": provenance.versions.get("dptransfer", "unknown"),
        "method": {"name": provenance.method, **_part_of(schema.MethodEntry, provenance)},
        "guarantee": guarantee.to_dict(),
        "relation": guarantee.relation.value,
        "delta": guarantee.delta,
        "events": [event_to_dict(event) for event in model.events],
        "publishable": not model.seeded,
        "facts": model.facts.to_dict(),
        "features": describe(model.features),
        "encoder_delta": delta and {"kind": delta.kind, "base": delta.base.to_dict()},
        "head": describe_head(model.head),
        "arrays": _array_entries(_arrays(model)),
        **{name: part and part.to_dict() for name, part in parts.items()},
        "about": _part_of(schema.AboutEntry, provenance),
        "files": {
            name: {"sha256": hashlib.sha256(content).hexdigest(), "size": len(content)}
            for name, content in contents.items()
        },
        **_part_of(Manifest, provenance),
    }
    return {name: fields[name] for name in Manifest.model_fields if name in fields}


def _part_of(entry: type[schema.ManifestPart], provenance: Provenance) -> JsonObject:
    """What an entry of the manifest records of the provenance under its own names."""
    own = {one.name for one in dataclasses.fields(provenance)} - {"method"}
    return {name: getattr(provenance, name) for name in entry.model_fields if name in own}


def _arrays(model: PrivateClassifier) -> dict[str, AnyArray]:
    """What the weights file holds: the model's arrays, and its witnesses."""
    more = {} if model.witnesses is None else {schema.WITNESSES: model.witnesses.values}
    return {**model.weights, **more}


def _restored(manifest: Manifest, weights: bytes) -> PrivateClassifier:
    arrays = _read_weights(weights, manifest.arrays)
    told, drawn = manifest.witnesses, arrays.pop(schema.WITNESSES, None)
    parts: dict[str, dict[str, AnyArray]] = {"": {}, schema.OF_MAP: {}, schema.OF_ENCODER: {}}
    for name, array in arrays.items():
        mark = next((mark for mark in parts if mark and name.startswith(mark)), "")
        parts[mark][name.removeprefix(mark)] = array
    changed, delta = manifest.encoder_delta, None
    charged, calibrated = manifest.charged_evaluation, manifest.simulated_calibration
    record = dict(manifest) | dict(manifest.about) | dict(manifest.method) | {"method": manifest.method.name}
    try:
        if changed is not None:  # most releases change no encoder, and need no encoder's code
            from dptransfer.encoders.encoder import EncoderDelta

            delta = EncoderDelta(changed.base, changed.kind, parts[schema.OF_ENCODER])
        model = PrivateClassifier(
            head=read_head(parts[""], manifest.head.model_dump()),
            features=read_features(parts[schema.OF_MAP], manifest.features),
            facts=manifest.facts,
            events=tuple(event_from_dict(event) for event in manifest.events),
            guarantee=manifest.guarantee.guarantee,
            provenance=Provenance(**{one.name: record[one.name] for one in dataclasses.fields(Provenance)}),
            encoder_delta=delta,
            charged=None if charged is None else ChargedEvaluation.from_dict(charged),
            simulated=None if calibrated is None else Calibration.from_dict(calibrated),
            witnesses=None if told is None or drawn is None else Witnesses.from_dict(told, drawn),
        )
        tested = None if manifest.evaluation is None else Evaluation.from_dict(manifest.evaluation)
        _require_same_classes(model, tested, model.charged)
        if manifest.owners is not None:
            check_owners(manifest.owners, manifest)  # nobody is named who did not sign
        used = set(model.weights) == set(arrays) and (told is None) == (drawn is None)
        require(used, "The weights file holds an array that the model does not use.")
        _require_fit(model)
    except (DPTransferError, KeyError, TypeError, ValueError, ArithmeticError, AttributeError) as problem:
        raise ReleaseError(
            f"A release must describe a model that fits together; it does not ({problem}). {READ_AGAIN}"
        ) from None
    return model


def _require_same_classes(model: PrivateClassifier, *results: Evaluation | ChargedEvaluation | None) -> None:
    require(
        all(one is None or one.classes == model.classes for one in results),
        "An evaluation on the card must be of the model's own classes; it is not. Evaluate this model.",
    )


def _require_fit(model: PrivateClassifier) -> None:
    """Raise unless facts, encoder, map and head fit together; found out by scoring one row of zeros."""
    widths, facts, classes = (
        (model.features.input_dimension, model.features.dimension),
        model.facts,
        model.classes,
    )
    known = all(type(width) is int and width >= 1 for width in widths)
    require(known, "The feature map must have a width; it has none.")
    pictures = len(facts.shape) > 1
    require(
        facts.shape == widths[:1] or (pictures and model.encoder is not None),
        f"The feature map must take the examples as they are declared, {facts.form}, unless the release "
        f"names or changes an encoder; it takes rows of dimension {widths[0]}.",
    )
    wrong = f"A model that changes an encoder is fitted on pictures; got {facts.form}."
    require(pictures or model.encoder_delta is None, wrong)
    fits = model.simulated is None or len(model.simulated.offsets) == len(classes)
    require(fits, "A calibration must have one offset per class; it has others.")
    with np.errstate(all="ignore"), suppress(ValueError):
        if model.head.scores(np.zeros((1, widths[1]))).shape == (1, len(classes)):
            return
    score = f"The head must score {widths[1]} features for {len(classes)} classes"
    raise ReleaseError(f"{score}; its arrays have other shapes.")


def amend_release(
    path: str | Path,
    *,
    evaluation: Evaluation | None = None,
    charged: ChargedEvaluation | None = None,
    title: str | None = None,
    contact: str | None = None,
    license: str | None = None,
) -> Path:
    """Write the release again with these words on its card; what is not given stays as it was.

    Args:
        path: the release directory.
        evaluation: test results of this very model. Test rows are not protected, and the rows that the model
            was fitted on must never be among them: the card would tell how they were classified.
        charged: test results of this very model on private rows, paid for, with noise that nobody can
            repeat unless the model's own came from a seed. A model that was fitted with a hold-out has its
            own already.
        title: what the model or its data are called in public.
        contact: whom to ask.
        license: of the model.
    """
    model = read_release(path)
    unsafe = model.seeded  # it was written as such before, and stays stamped
    if charged is not None:
        require_room_for_results(model)
        require(
            charged.holdout is None,
            "The results of a hold-out belong to the model whose fit held it out; these are of another. "
            "Evaluate this one: PrivateEvaluation(model).evaluate(...).",
        )
        model = replace(model, charged=charged)
    return write_release(
        model,
        path,
        unsafe_for_publication=unsafe,
        evaluation=read_evaluation(path) if evaluation is None else evaluation,
        title=title,
        contact=contact,
        license=license,
        overwrite=True,
    )


def require_room_for_results(model: PrivateClassifier) -> None:
    """Raise for a model whose own charged results must stay: its guarantee covers their rows too."""
    require(
        model.charged is None or model.charged.holdout is None,
        "A model that was fitted with a hold-out has its charged results already; others were to be put in "
        "their place. In Python, PrivateEvaluation gives them beside the release.",
    )


def weights_bytes(arrays: Mapping[str, AnyArray]) -> bytes:
    """The file's content; types that a release does not hold are refused, and so is a NaN."""
    from safetensors.numpy import save

    for name, array in arrays.items():
        kinds = ("float32",) if name.startswith(schema.OF_ENCODER) else ("float64", "int32")
        wrong = f"Released arrays are {' or '.join(kinds)}; '{name}' is {array.dtype}. Convert it first."
        require(array.dtype.name in kinds, wrong)
    _require_finite(arrays)
    return bytes(save({name: np.ascontiguousarray(array) for name, array in arrays.items()}))


def _array_entries(arrays: Mapping[str, AnyArray]) -> list[JsonObject]:
    """What the manifest records about the arrays."""
    return [
        {"name": name, "dtype": array.dtype.name, "shape": list(array.shape)}
        for name, array in sorted(arrays.items())
    ]


def _read_weights(content: bytes, entries: Sequence[schema.ArrayEntry]) -> dict[str, AnyArray]:
    """The arrays in the file's content: those that the manifest lists, and nothing beside them."""
    from safetensors import SafetensorError
    from safetensors.numpy import load

    try:
        arrays: dict[str, AnyArray] = load(content)
        header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
    except (SafetensorError, ValueError, KeyError) as problem:  # the last for types that numpy lacks
        raise ReleaseError(
            f"'{schema.WEIGHTS_NAME}' must be readable; it is not ({problem}). {READ_AGAIN}"
        ) from None
    listed = sorted((entry.model_dump(mode="json") for entry in entries), key=lambda entry: entry["name"])
    require(
        _array_entries(arrays) == listed and header.keys() == arrays.keys(),  # no metadata either
        f"'{schema.WEIGHTS_NAME}' must hold exactly the arrays listed in the manifest, with their types and "
        f"shapes; it does not. {READ_AGAIN}",
    )
    _require_finite(arrays)
    return arrays


def _require_finite(arrays: Mapping[str, AnyArray]) -> None:
    odd = next((name for name, array in arrays.items() if not np.isfinite(array).all()), None)
    finite = f"Released arrays hold finite numbers; '{odd}' does not"
    require(odd is None, f"{finite}. Do not use this model, and report how it arose.")


def require_target(path: str | Path, *, overwrite: bool = False) -> None:
    """Raise unless a release may be written to `path`; worth asking before any privacy is spent.

    Overwriting replaces a release or an empty directory, and nothing else: it never deletes a file that is
    not part of a release.
    """
    target = Path(path)
    require(not is_on_hub(path), f"A release is written to a directory; '{path}' is on the hub. Use push.")
    if not os.path.lexists(target):
        return
    require(
        overwrite,
        f"A release is written to a new directory; '{target}' exists. Choose another path, or pass "
        "overwrite=True (--overwrite).",
    )
    is_directory = target.is_dir() and not target.is_symlink()
    others = other_files(target) if is_directory else []
    found = f"'{target}' also holds '{others[0]}'" if others else f"'{target}' is none"
    only = "Overwriting replaces a release directory and nothing else"
    require(is_directory and not others, f"{only}; {found}. Move it away, or choose another path.")


def other_files(directory: Path) -> list[str]:
    """Names of files there that are not a release's."""
    return sorted({entry.name for entry in directory.iterdir()} - {schema.MANIFEST_NAME, *FILE_NAMES})


@contextmanager
def release_errors(path: Path) -> Iterator[None]:
    """Tell of a failed write to `path`, which left nothing behind, as a `ReleaseError`."""
    try:
        yield
    except DataError as problem:  # somebody else is writing it, or nobody can
        raise ReleaseError(str(problem)) from None
    except OSError as problem:
        raise ReleaseError(
            f"A release is written whole or not at all; writing '{path}' failed "
            f"({problem.strerror or problem}). Nothing was left; free some space or choose another path."
        ) from problem


def require_directory(path: str | Path) -> Path:
    """The path, if there is a directory; a copy of what 'hf:OWNER/NAME' names on the hub."""
    directory = download_release(path) if is_on_hub(path) else Path(path)
    found = "is a file" if directory.exists() else "does not exist"
    require(directory.is_dir(), f"A release is a directory; '{directory}' {found}. {_GIVE_DIRECTORY}")
    return directory


def read_file(directory: Path, name: str) -> bytes:
    """The content of one file of a release: present, regular, inside the directory, not too large.

    A read makes room for as much as it is asked for, so it is asked for the file's size and not the limit.
    """
    path = directory / name
    try:
        inside = path.resolve().is_relative_to(directory.resolve())
        status = path.stat()
    except (OSError, RuntimeError):  # missing, or a loop of links
        remedy = READ_AGAIN if os.path.lexists(directory / schema.MANIFEST_NAME) else _GIVE_DIRECTORY
        consists = f"A release consists of {schema.MANIFEST_NAME}, {', '.join(FILE_NAMES)}"
        raise ReleaseError(f"{consists}; '{name}' is missing from '{directory}'. {remedy}") from None
    require(
        inside and stat.S_ISREG(status.st_mode),
        f"A release's files are ordinary files inside its directory; '{path}' is not. "
        "Copy the release with its files, not with links to them.",
    )
    require(
        status.st_size <= LARGEST_FILE[name],
        f"'{name}' may hold at most {LARGEST_FILE[name]} bytes; this one holds {status.st_size}. "
        "It was not written by dptransfer; do not use it.",
    )
    try:
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            content = file.read(min(size, LARGEST_FILE[name]) + 1)
    except OSError as problem:
        unreadable = f"A release must be readable; '{path}' is not ({problem.strerror})"
        raise ReleaseError(f"{unreadable}. Check its permissions.") from None
    require(
        len(content) == size <= LARGEST_FILE[name],
        f"A release must stay as it is while it is read; '{name}' changed. Read it again.",
    )
    return content


def read_manifest_in(directory: Path) -> Manifest:
    """The manifest of the release there."""
    return schema.read_manifest(read_file(directory, schema.MANIFEST_NAME))


def read_recorded(directory: Path, name: str, manifest: Manifest) -> bytes:
    """The same, of a file that must be the one that the manifest recorded."""
    content, recorded = read_file(directory, name), manifest.files[name]
    same = len(content) == recorded.size and hashlib.sha256(content).hexdigest() == recorded.sha256
    require(same, f"'{name}' must have the recorded size and SHA-256; it was changed. {READ_AGAIN}")
    return content
