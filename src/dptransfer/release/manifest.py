"""Serialise the manifest of a release: the schema of `release.json`, version 1.

Reading is strict: an unknown key, a missing one, a wrong type, a repeated key, NaN, an event that does not
say what it would write, or a sentence that is not the guarantee's own are all refused. The file also
carries its own SHA-256 (of the file with that one value replaced by zeros), so that any changed byte is
noticed. A digest finds accidents; it is no signature, which is why `verify` recomputes the guarantee as
well.
"""

from __future__ import annotations

import hashlib
import json
import math
import platform
from collections.abc import Mapping
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import PurePath
from typing import Annotated, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from dptransfer._version import __version__
from dptransfer.base.plugins import path_now
from dptransfer.base.types import JsonObject
from dptransfer.data.facts import EncoderIdentity, Facts
from dptransfer.errors import ReleaseError
from dptransfer.privacy import Guarantee, event_from_dict, event_to_dict

SCHEMA_VERSION = 1
MANIFEST_NAME = "release.json"
WEIGHTS_NAME = "model.safetensors"
OF_MAP, OF_ENCODER = "features.", "encoder."
"""How the names of arrays begin that are not the head's."""
WITNESSES = "witnesses"
"""Name of the array of witness coordinates, and of what is recorded of them."""
TEXT_NAMES = ("README.md", "card.html", "MLmodel")
FILE_NAMES = (WEIGHTS_NAME, *TEXT_NAMES)
LARGEST_MANIFEST = 16 * 2**20
READ_AGAIN = "Fetch the release again from where it came from."

_PACKAGES = ("numpy", "cryptography", "dp-accounting")
_NO_DIGEST = "0" * 64

Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Count = Annotated[int, Field(ge=0)]
Number = Annotated[float, Field(allow_inf_nan=False)]
RelationName = Literal["add/remove", "replace-one"]


class ManifestPart(BaseModel):
    """A part of the file: all of its keys are known, and none is converted."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class MethodEntry(ManifestPart):
    """The method's command-line name, its settings, and its own description."""

    name: str
    configuration: JsonObject
    summary: str
    reference: str


class HeadEntry(ManifestPart):
    """`describe_head(head)`."""

    kind: str
    temperature: Annotated[float, Field(ge=1e-12, le=1e12)]  # a softmax can be taken


class GuaranteeEntry(ManifestPart):
    """`Guarantee.to_dict()`."""

    epsilon: Annotated[float, Field(ge=0, allow_inf_nan=False)]
    delta: Annotated[float, Field(ge=0, lt=1)]
    relation: RelationName
    rho: Number | None
    mu: Number | None
    assumptions: tuple[str, ...]
    unit: Literal["row", "person"] = "row"
    sentence: str

    @model_validator(mode="after")
    def _says_what_it_means(self) -> GuaranteeEntry:
        _require(self.sentence == str(self.guarantee), "the sentence does not state the guarantee's numbers")
        return self

    @property
    def guarantee(self) -> Guarantee:
        """The guarantee itself."""
        return Guarantee.from_dict(self.model_dump())


class ArrayEntry(ManifestPart):
    """One released array."""

    name: str
    dtype: Literal["float64", "int32", "float32"]
    shape: tuple[Count, ...]

    @model_validator(mode="after")
    def _has_its_type(self) -> ArrayEntry:
        of_encoder = self.name.startswith(OF_ENCODER)
        _require(of_encoder == (self.dtype == "float32"), "arrays of an encoder, and no others, are float32")
        return self


class DeltaEntry(ManifestPart):
    """What was changed in an encoder: its kind and the encoder; its arrays are 'encoder.…'."""

    kind: str
    base: EncoderIdentity


class AboutEntry(ManifestPart):
    """What the owner calls the release in public, whom to ask, and the licence; empty where not said."""

    title: str
    contact: str
    license: str


class FileEntry(ManifestPart):
    """Checksum and size of another file of the release."""

    sha256: Digest
    size: Count


class Manifest(ManifestPart):
    """Everything a release records about itself, in the order in which it is written."""

    schema_version: Annotated[int, Field(ge=1, le=SCHEMA_VERSION)]
    library_version: str
    created: str
    method: MethodEntry
    guarantee: GuaranteeEntry
    relation: RelationName
    delta: Annotated[float, Field(ge=0, lt=1)]
    events: tuple[JsonObject, ...]
    seeded: bool
    publishable: bool
    facts: Facts
    features: JsonObject
    encoder_delta: DeltaEntry | None
    head: HeadEntry
    arrays: tuple[ArrayEntry, ...]
    notes: tuple[str, ...]
    public: JsonObject | None
    prototypes: JsonObject | None
    answers: JsonObject | None
    evaluation: JsonObject | None
    charged_evaluation: JsonObject | None
    simulated_calibration: JsonObject | None
    witnesses: JsonObject | None = None
    owners: JsonObject | None = None
    ledger_head: str | None
    about: AboutEntry
    versions: dict[str, str]
    files: dict[str, FileEntry]
    digest: Digest

    @model_validator(mode="after")
    def _is_consistent(self) -> Manifest:
        for fields in self.events:
            same = event_to_dict(event_from_dict(fields)) == fields
            _require(same, f"a {fields['kind']} event does not say what it would write")
            _require(fields["relation"] == self.relation, "an event has another relation than the release")
            unit = fields.get("unit", "row")
            _require(unit == self.guarantee.unit, "an event protects another unit than the guarantee")
        same = self.facts.unit.value == self.guarantee.unit
        _require(same, "the guarantee protects another unit than the facts declare")
        stated, version = (self.guarantee.relation, self.guarantee.delta), self.versions.get("dptransfer")
        _require((self.relation, self.delta) == stated, "relation and delta are not those of the guarantee")
        same = self.library_version == (version or "unknown")
        _require(same, "library_version is not that of the versions")
        seeded = self.seeded or bool((self.charged_evaluation or {}).get("seeded"))
        _require(not (self.publishable and seeded), "a seeded release cannot be publishable")
        _require(set(self.files) == set(FILE_NAMES), f"files must list exactly {', '.join(FILE_NAMES)}")
        _require(len({array.name for array in self.arrays}) == len(self.arrays), "an array is listed twice")
        return self


def require(holds: bool, otherwise: str) -> None:
    """Raise a `ReleaseError` of these words unless it holds."""
    if not holds:
        raise ReleaseError(otherwise)


def current_versions(*others: str) -> dict[str, str]:
    """Versions of Python, of this library, of the libraries a guarantee rests on, and of these packages.

    >>> sorted(current_versions())
    ['cryptography', 'dp-accounting', 'dptransfer', 'numpy', 'python']
    """
    here = {"python": platform.python_version(), "dptransfer": __version__}
    return {
        **here,
        **{name: _found_on(name, path_now()) for name in (*_PACKAGES, *others) if name not in here},
    }


def manifest_bytes(fields: JsonObject) -> bytes:
    """The file's content; `digest` is computed here and need not be given."""
    plain = {**fields, "digest": _NO_DIGEST}
    try:
        blank = json.dumps(plain, indent=1, ensure_ascii=False, allow_nan=False, default=_plain) + "\n"
        content = blank.encode()
    except (TypeError, ValueError) as problem:
        raise ReleaseError(
            "A release records plain numbers, words and lists only; one entry is something else "
            f"({problem}). Make the method's configuration JSON-ready."
        ) from None
    head, _, tail = content.rpartition(_NO_DIGEST.encode())
    content = head + hashlib.sha256(content).hexdigest().encode() + tail
    require(
        len(content) <= LARGEST_MANIFEST,
        f"{MANIFEST_NAME} may hold at most {LARGEST_MANIFEST} bytes; this one would have {len(content)}. "
        "Leave the public rows' sources out, or shorten them.",
    )
    read_manifest(content)  # what is written can be read
    return content


def read_manifest(content: bytes) -> Manifest:
    """Parse and check the content of a `release.json`."""
    try:
        fields = json.loads(
            content.decode(), object_pairs_hook=_distinct, parse_constant=_finite, parse_float=_finite
        )
    except (ValueError, RecursionError) as problem:
        raise ReleaseError(f"{MANIFEST_NAME} must be JSON; it is not ({problem}). {READ_AGAIN}") from None
    found = fields.get("schema_version") if isinstance(fields, dict) else None
    newer = type(found) is int and found > SCHEMA_VERSION
    this = f"this one reads up to {SCHEMA_VERSION}; upgrade."
    require(not newer, f"{MANIFEST_NAME} was written by a newer dptransfer (schema {found}); {this}")
    try:
        # The parser takes no lone surrogates, so every string read can be written again.
        manifest = Manifest.model_validate_json(json.dumps(fields))
        if manifest.facts.to_dict() != fields["facts"]:
            raise ValueError("the facts do not say what they would write")
    except ValidationError as problem:
        first = problem.errors(include_url=False, include_input=False, include_context=False)[0]
        place = ".".join(str(part) for part in first["loc"]) or "the whole file"
        said = first["msg"].removeprefix("Value error, ").rstrip(".")
        raise ReleaseError(
            f"{MANIFEST_NAME} must follow schema {SCHEMA_VERSION}; at {place}: {said}. {READ_AGAIN}"
        ) from None
    except ValueError as problem:
        raise ReleaseError(f"{MANIFEST_NAME} must follow its schema; {problem}. {READ_AGAIN}") from None
    head, mark, tail = content.rpartition(manifest.digest.encode())
    same = mark and hashlib.sha256(head + _NO_DIGEST.encode() + tail).hexdigest() == manifest.digest
    require(bool(same), f"{MANIFEST_NAME} must have the digest it states; it was changed. {READ_AGAIN}")
    return manifest


@lru_cache(maxsize=64)
def _found_on(package: str, path: tuple[tuple[str, int], ...]) -> str:
    """Looked up once: to read what is installed takes longer than many a fit."""
    try:
        return version(package)
    except (PackageNotFoundError, ValueError):  # the latter for a name that cannot be one
        return "unknown"


def _plain(value: object) -> object:
    """JSON form of what a configuration may reasonably hold."""
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, PurePath):
        return str(value)
    raise TypeError(f"a {type(value).__name__} cannot be written as JSON")


def _distinct(pairs: list[tuple[str, object]]) -> JsonObject:
    fields = dict(pairs)
    _require(len(fields) == len(pairs), "a key is repeated")
    return fields


def _finite(text: str) -> float:
    value = float(text)
    _require(math.isfinite(value), f"{text} is not a finite number")
    return value


def _require(holds: bool, otherwise: str) -> None:
    if not holds:
        raise ValueError(otherwise)
