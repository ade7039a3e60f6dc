"""The manifest of an `.emb` folder: what is inside, and the checksums that prove it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from dptransfer.data.identity import EncoderIdentity
from dptransfer.data.table import unreadable

VERSION = 1

_Digest = Field(pattern=r"^[0-9a-f]{64}$")


class EncoderEntry(BaseModel):
    """An `EncoderIdentity` as written to the manifest."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    name: str
    weights: str
    transform: str

    def identity(self) -> EncoderIdentity:
        """The identity it stands for."""
        return EncoderIdentity(self.name, self.weights, self.transform)


class Manifest(BaseModel):
    """Everything about an `.emb` folder except the numbers.

    Attributes:
        format: always 'dptransfer-embeddings'.
        version: schema version, 1.
        name: the data set's name, for the ledger.
        rows: number of rows.
        dimension: width of a row.
        dtype: element type of the rows.
        classes: the declared class list; labels are positions in it. None: labels are whole numbers as given.
        encoder: the encoder behind the rows, if on record.
        files: SHA-256 of each file in the folder.
        fingerprint: SHA-256 of rows and labels, as `PrivateEmbeddings.fingerprint` computes it.
        rows_fingerprint: SHA-256 of the rows, as `PublicEmbeddings.fingerprint` computes it.
        created: time of writing, UTC, ISO 8601.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    format: Literal["dptransfer-embeddings"] = "dptransfer-embeddings"
    version: Literal[1] = 1
    name: str | None
    rows: int = Field(ge=0)
    dimension: int = Field(ge=1)
    dtype: Literal["float16", "float32", "float64"]
    classes: list[str] | list[int] | None
    encoder: EncoderEntry | None
    files: dict[Literal["rows.npy", "labels.npy", "sources.json"], str]
    fingerprint: str = _Digest
    rows_fingerprint: str = _Digest
    created: str


def read_manifest(path: Path) -> Manifest:
    """The checked manifest of an `.emb` folder, from its file."""
    try:
        fields: Any = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise unreadable(
            path.parent,
            f"an .emb folder must hold {path.name}, and this one does not.",
            "Write it again with write_embeddings or 'dptransfer encode'.",
        ) from None
    except (OSError, ValueError, RecursionError) as error:
        raise unreadable(
            path, f"the manifest must be JSON; it is not ({type(error).__name__}).", "Restore or rewrite it."
        ) from None
    version = fields.get("version") if isinstance(fields, dict) else None
    if isinstance(version, int) and version > VERSION:
        raise unreadable(
            path,
            f"the manifest must have schema version {VERSION} or older; it has {version}.",
            "Upgrade dptransfer to read it.",
        )
    try:
        return Manifest.model_validate(fields)
    except ValidationError as error:
        where = ".".join(str(part) for part in error.errors()[0]["loc"]) or "the whole file"
        raise unreadable(
            path,
            f"the manifest must follow schema version {VERSION}; the field '{where}' does not.",
            "Restore or rewrite it.",
        ) from None
