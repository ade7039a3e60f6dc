"""Read, write and amend a release directory: weights, manifest and card.

release.json        everything but the arrays, with checksums of the other files (see `manifest`)
model.safetensors   the released arrays (see `weights`)
CARD.md, card.html  the privacy and model card (see `card`)

The arrays, the steps and the guarantee stay as they are. The directory is replaced as a whole, with every
checksum new, so that a reader sees the release before or after and never a mixture.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from dptransfer.base.document import one_line
from dptransfer.errors import DPTransferError, ReleaseError, UnsafeRelease
from dptransfer.exact.feature_map import describe, read_features
from dptransfer.privacy import event_from_dict, event_to_dict
from dptransfer.release.calibration import Calibration
from dptransfer.release.charged_evaluation import ChargedEvaluation
from dptransfer.release.classifier import PrivateClassifier, Provenance
from dptransfer.release.evaluation import Evaluation
from dptransfer.release.files import (
    describe_arrays,
    read_file,
    read_recorded,
    read_weights,
    require_directory,
    weights_bytes,
    write_directory,
)
from dptransfer.release.heads import describe_head, read_head
from dptransfer.release.manifest import (
    CARD_NAMES,
    FILE_NAMES,
    MANIFEST_NAME,
    OF_ENCODER,
    OF_MAP,
    READ_AGAIN,
    SCHEMA_VERSION,
    WEIGHTS_NAME,
    Manifest,
    current_versions,
    manifest_bytes,
    read_manifest,
)

_LARGEST_CONFUSION = 100
_AS_THEY_ARE = ("seeded", "notes", "public", "ledger_head", "created", "versions", "prototypes", "answers")


def write_release(
    model: PrivateClassifier,
    path: str | Path,
    *,
    unsafe_for_publication: bool = False,
    evaluation: Evaluation | None = None,
    title: str | None = None,
    contact: str | None = None,
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
        overwrite: replace a release that is there already.
    """
    from dptransfer.release.card import card_of  # which reading needs not

    require_publishable(model, unsafe_for_publication)
    _require_same_classes(model, evaluation, model.charged)
    model = _stamped(model, title, contact)
    _require_fit(model)
    card = card_of(model, evaluation)
    written = (weights_bytes(model.weights), card.markdown().encode(), card.html().encode())
    contents = dict(zip(FILE_NAMES, written, strict=True))
    manifest = manifest_bytes(_manifest_fields(model, evaluation, contents))
    target = Path(path)
    write_directory(target, {**contents, MANIFEST_NAME: manifest}, overwrite=overwrite)
    return target


def read_release(path: str | Path) -> PrivateClassifier:
    """Read a release directory; anything missing, changed, oversized or newer than this library is refused.

    Reading checks that the files are those that were written. Whether the guarantee follows from the
    recorded steps is checked by `verify_release`.
    """
    directory = require_directory(path)
    manifest = read_manifest(read_file(directory, MANIFEST_NAME))
    for name in CARD_NAMES:
        read_recorded(directory, name, manifest)
    return _restored(manifest, read_recorded(directory, WEIGHTS_NAME, manifest))


def read_evaluation(path: str | Path) -> Evaluation | None:
    """The test results that were written with a release, if any."""
    manifest = read_manifest(read_file(require_directory(path), MANIFEST_NAME))
    try:
        return None if manifest.evaluation is None else Evaluation.from_dict(manifest.evaluation)
    except DPTransferError as problem:
        raise ReleaseError(f"The recorded evaluation must be readable: {problem} {READ_AGAIN}") from None


def release_digest(path: str | Path) -> str:
    """The SHA-256 that a release states of itself."""
    return read_manifest(read_file(require_directory(path), MANIFEST_NAME)).digest


def require_publishable(model: PrivateClassifier, unsafe_for_publication: bool) -> None:
    """Raise for a seeded model unless the caller says that it will not be published."""
    if model.seeded and not unsafe_for_publication:
        raise UnsafeRelease(
            "A release must have noise that nobody can repeat; this one's noise came from a seed. Use "
            "SecureNoise() (the default), or pass unsafe_for_publication=True to write it for tests."
        )


def _stamped(model: PrivateClassifier, title: str | None, contact: str | None) -> PrivateClassifier:
    """The model with a time and versions on record, where the method did not give them, and these words."""
    old = model.provenance
    stamped = replace(
        old,
        created=old.created or datetime.now(UTC).isoformat(timespec="seconds"),
        versions=dict(old.versions) or current_versions(),
        title=old.title if title is None else one_line(title),
        contact=old.contact if contact is None else one_line(contact),
    )
    return replace(model, provenance=stamped)


def _manifest_fields(
    model: PrivateClassifier, evaluation: Evaluation | None, contents: dict[str, bytes]
) -> dict[str, Any]:
    provenance, guarantee, delta = model.provenance, model.guarantee, model.encoder_delta
    evaluation = None if evaluation is None else evaluation.for_release()
    if evaluation is not None and len(evaluation.classes) > _LARGEST_CONFUSION:
        evaluation = replace(evaluation, confusion=())  # it would be most of the file; the card has no use
    return {
        "schema_version": SCHEMA_VERSION,
        "library_version": provenance.versions.get("dptransfer", "unknown"),
        "created": provenance.created,
        "method": {
            "name": provenance.method,
            "configuration": dict(provenance.configuration),
            "summary": provenance.summary,
            "reference": provenance.reference,
        },
        "guarantee": guarantee.to_dict(),
        "relation": guarantee.relation.value,
        "delta": guarantee.delta,
        "events": [event_to_dict(event) for event in model.events],
        "seeded": provenance.seeded,
        "publishable": not model.seeded,
        "facts": model.facts.to_dict(),
        "features": describe(model.features),
        "encoder_delta": None if delta is None else {"kind": delta.kind, "base": delta.base.to_dict()},
        "head": describe_head(model.head),
        "arrays": describe_arrays(model.weights),
        "notes": list(provenance.notes),
        "public": provenance.public,
        "prototypes": provenance.prototypes,
        "answers": provenance.answers,
        "evaluation": None if evaluation is None else evaluation.to_dict(),
        "charged_evaluation": None if model.charged is None else model.charged.to_dict(),
        "simulated_calibration": None if model.simulated is None else model.simulated.to_dict(),
        "ledger_head": provenance.ledger_head,
        "about": {"title": provenance.title, "contact": provenance.contact},
        "versions": dict(provenance.versions),
        "files": {
            name: {"sha256": hashlib.sha256(content).hexdigest(), "size": len(content)}
            for name, content in contents.items()
        },
    }


def _restored(manifest: Manifest, weights: bytes) -> PrivateClassifier:
    arrays = read_weights(weights, manifest.arrays)
    of_map, of_encoder = (
        {name.removeprefix(mark): array for name, array in arrays.items() if name.startswith(mark)}
        for mark in (OF_MAP, OF_ENCODER)
    )
    own = {name: array for name, array in arrays.items() if not name.startswith((OF_MAP, OF_ENCODER))}
    changed, delta = manifest.encoder_delta, None
    told, calibrated = manifest.charged_evaluation, manifest.simulated_calibration
    try:
        if changed is not None:  # most releases change no encoder, and need no encoder's code
            from dptransfer.encoders.encoder import EncoderDelta

            delta = EncoderDelta(changed.base, changed.kind, of_encoder)
        model = PrivateClassifier(
            head=read_head(own, manifest.head.model_dump()),
            features=read_features(of_map, manifest.features),
            facts=manifest.facts,
            events=tuple(event_from_dict(event) for event in manifest.events),
            guarantee=manifest.guarantee.guarantee,
            provenance=Provenance(
                method=manifest.method.name,
                configuration=manifest.method.configuration,
                **{name: getattr(manifest, name) for name in _AS_THEY_ARE},
                title=manifest.about.title,
                contact=manifest.about.contact,
                summary=manifest.method.summary,
                reference=manifest.method.reference,
            ),
            encoder_delta=delta,
            charged=None if told is None else ChargedEvaluation.from_dict(told),
            simulated=None if calibrated is None else Calibration.from_dict(calibrated),
        )
        tested = None if manifest.evaluation is None else Evaluation.from_dict(manifest.evaluation)
        _require_same_classes(model, tested, model.charged)
        if set(model.weights) != set(arrays):
            raise ReleaseError("The weights file holds an array that the model does not use.")
        _require_fit(model)
    except (DPTransferError, KeyError, TypeError, ValueError, ArithmeticError, AttributeError) as problem:
        raise ReleaseError(
            f"A release must describe a model that fits together; it does not ({problem}). {READ_AGAIN}"
        ) from None
    return model


def _require_same_classes(model: PrivateClassifier, *results: Evaluation | ChargedEvaluation | None) -> None:
    if any(one is not None and one.classes != model.classes for one in results):
        raise ReleaseError(
            "An evaluation on the card must be of the model's own classes; it is not. Evaluate this model."
        )


def _require_fit(model: PrivateClassifier) -> None:
    """Raise unless facts, encoder, map and head fit together; found out by scoring one row of zeros."""
    widths = (model.features.input_dimension, model.features.dimension)
    if not all(type(width) is int and width >= 1 for width in widths):
        raise ReleaseError("The feature map must have a width; it has none.")
    pictures = len(model.facts.shape) > 1
    if model.facts.shape != widths[:1] and not (pictures and model.encoder is not None):
        raise ReleaseError(
            f"The feature map must take the examples as they are declared, {model.facts.form}, unless the "
            f"release names or changes an encoder; it takes rows of dimension {widths[0]}."
        )
    if model.encoder_delta is not None and not pictures:
        raise ReleaseError(f"A model that changes an encoder is fitted on pictures; got {model.facts.form}.")
    try:
        with np.errstate(all="ignore"):
            shape = model.head.scores(np.zeros((1, widths[1]))).shape
    except ValueError:
        shape = ()
    if model.simulated is not None and len(model.simulated.offsets) != len(model.classes):
        raise ReleaseError("A calibration must have one offset per class; it has others.")
    if shape != (1, len(model.classes)):
        raise ReleaseError(
            f"The head must score {widths[1]} features for {len(model.classes)} classes; its arrays have "
            "other shapes."
        )


def amend_release(
    path: str | Path,
    *,
    evaluation: Evaluation | None = None,
    charged: ChargedEvaluation | None = None,
    title: str | None = None,
    contact: str | None = None,
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
    """
    model = read_release(path)
    unsafe = model.seeded  # it was written as such before, and stays stamped
    if charged is not None:
        require_room_for_results(model)
        if charged.holdout is not None:
            raise ReleaseError(
                "The results of a hold-out belong to the model whose fit held it out; these are of another. "
                "Evaluate this one: PrivateEvaluation(model).evaluate(...)."
            )
        model = replace(model, charged=charged)
    return write_release(
        model,
        path,
        unsafe_for_publication=unsafe,
        evaluation=read_evaluation(path) if evaluation is None else evaluation,
        title=title,
        contact=contact,
        overwrite=True,
    )


def require_room_for_results(model: PrivateClassifier) -> None:
    """Raise for a model whose own charged results must stay: its guarantee covers their rows too."""
    if model.charged is not None and model.charged.holdout is not None:
        raise ReleaseError(
            "A model that was fitted with a hold-out has its charged results already; others were to be put "
            "in their place. In Python, PrivateEvaluation gives them beside the release."
        )
