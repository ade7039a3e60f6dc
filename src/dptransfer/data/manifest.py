"""The manifest of an `.emb` folder: what is inside, and the checksums that prove it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError

from dptransfer.data.identity import EncoderIdentity
from dptransfer.data.parsing import parsing
from dptransfer.data.table import require, unreadable

VERSION = 1
"""The schema of this release."""

Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


@dataclass(frozen=True)
class Shard:
    """One of the files that the rows are in.

    Attributes:
        file: its name.
        rows: how many it has.
        sha256: of the file.
    """

    __pydantic_config__ = ConfigDict(extra="forbid", strict=True)

    file: Annotated[str, Field(pattern=r"^rows-[0-9]{5,9}\.npy$")]
    rows: Annotated[int, Field(ge=1)]
    sha256: Digest


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """Everything about an `.emb` folder except the numbers.

    Attributes:
        format: always 'dptransfer-embeddings'.
        version: schema version.
        public: whether the rows are nobody's data; others, and copies of them, are never public.
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
        shards: the files that the rows are in, in order; None: they are in rows.npy.
        scale: what int8 values are multiplied with to be rows; None for floats.
        finite: whether all rows of a public folder were found to be finite.
    """

    __pydantic_config__ = ConfigDict(extra="forbid", strict=True)

    format: Literal["dptransfer-embeddings"] = "dptransfer-embeddings"
    version: Literal[1] = 1
    public: bool
    name: str | None
    rows: Annotated[int, Field(ge=0)]
    dimension: Annotated[int, Field(ge=1)]
    dtype: Literal["float16", "float32", "float64", "int8"]
    classes: tuple[str, ...] | tuple[int, ...] | None
    encoder: EncoderIdentity | None
    files: dict[Literal["rows.npy", "labels.npy", "people.npy", "sources.json", "digests.npy"], str]
    fingerprint: Digest
    rows_fingerprint: Digest
    created: str
    shards: tuple[Shard, ...] | None = None
    scale: Annotated[float, Field(ge=1e-12, le=1e12)] | None = None
    finite: bool | None = None

    def to_json(self) -> str:
        """What `read_manifest` reads."""
        fields = asdict(self) | {"encoder": None if self.encoder is None else self.encoder.to_dict()}
        return json.dumps(fields, indent=2, ensure_ascii=False) + "\n"


def read_manifest(path: Path) -> Manifest:
    """The checked manifest of an `.emb` folder, from its file."""
    absent = f"an .emb folder must hold {path.name}, and this one does not."
    again = "Write it again with write_embeddings or 'dptransfer encode'."
    require(path.exists(), path.parent, absent, again)
    with parsing(path, "the manifest must be JSON; it is not.", "Restore or rewrite it."):
        content = path.read_text(encoding="utf-8")
        fields: Any = json.loads(content)
    version = fields.get("version") if isinstance(fields, dict) else None
    newer = isinstance(version, int) and version > VERSION
    rule = f"the manifest must have schema version {VERSION}; it has {version}."
    require(not newer, path, rule, "Upgrade dptransfer to read it.")
    try:
        found = _schema().validate_json(content)
    except ValidationError as error:
        where = ".".join(str(part) for part in error.errors()[0]["loc"]) or "the whole file"
        rule = f"the manifest must follow schema version {VERSION}; the field '{where}' does not."
        raise unreadable(path, rule, "Restore or rewrite it.") from None
    odd = next(_odd_fields(found), None)
    rule = f"the manifest must follow schema version {VERSION}; the field '{odd}' does not."
    require(odd is None, path, rule, "Restore or rewrite it.")
    return found


@cache
def _schema() -> TypeAdapter[Manifest]:
    """Takes longer to make than a manifest does to read."""
    return TypeAdapter(Manifest)


def _odd_fields(manifest: Manifest) -> Iterator[str]:
    """Fields that contradict another."""
    shards, small = manifest.shards, manifest.dtype == "int8"
    if small and shards is None:
        yield "shards"
    if small != (manifest.scale is not None):
        yield "scale"
    if (shards is None) != ("rows.npy" in manifest.files):
        yield "files"
    if shards is not None and len({shard.file for shard in shards}) < len(shards):
        yield "shards (one file twice)"
    if shards is not None and sum(shard.rows for shard in shards) != manifest.rows:
        yield "rows"
