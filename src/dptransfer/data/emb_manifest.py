"""The manifest of an .emb folder, checked against its schema."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Literal

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError

from dptransfer.data.facts import EncoderIdentity
from dptransfer.data.tables import parsing, require, unreadable

VERSION = 1
"""The schema of this release."""

_Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
_Rows = Annotated[int, Field(ge=1)]
_File = Annotated[
    str, Field(pattern=r"^(rows-[0-9]{5,9}\.npy|labels\.npy|people\.npy|digests\.npy|sources\.json)$")
]


def shard_name(number: int) -> str:
    """The file of a shard, by its number from 0."""
    return f"rows-{number:05}.npy"


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """Everything about an `.emb` folder except the numbers.

    Attributes:
        format: always 'dptransfer-embeddings'.
        version: schema version.
        public: whether the rows are nobody's data; others, and copies of them, are never public.
        name: the data set's name, for the ledger.
        shards: the number of rows in each file of rows, in order.
        dimension: width of a row.
        dtype: element type of the rows.
        scale: what int8 values are multiplied with to be rows; None for floats.
        finite: whether all rows of a public folder were found to be finite.
        classes: the declared class list; labels are positions in it. None: labels are whole numbers as given.
        encoder: the encoder behind the rows, if on record.
        files: SHA-256 of each file in the folder.
        fingerprint: SHA-256 of rows and labels, as `PrivateEmbeddings.fingerprint` computes it.
        rows_fingerprint: SHA-256 of the rows, as `PublicEmbeddings.fingerprint` computes it.
        created: time of writing, UTC, ISO 8601.
    """

    __pydantic_config__ = ConfigDict(extra="forbid", strict=True)

    format: Literal["dptransfer-embeddings"] = "dptransfer-embeddings"
    version: Literal[1] = 1
    public: bool
    name: str | None
    shards: tuple[_Rows, ...]
    dimension: _Rows
    dtype: Literal["float16", "float32", "float64", "int8"]
    scale: Annotated[float, Field(ge=1e-12, le=1e12)] | None
    finite: bool | None
    classes: tuple[str, ...] | tuple[int, ...] | None
    encoder: EncoderIdentity | None
    files: dict[_File, _Digest]
    fingerprint: _Digest
    rows_fingerprint: _Digest
    created: str

    @property
    def shard_files(self) -> list[str]:
        """The files of rows, in order."""
        return [shard_name(number) for number in range(len(self.shards))]

    def to_json(self) -> str:
        """What `read_manifest` reads."""
        fields = asdict(self) | {"encoder": None if self.encoder is None else self.encoder.to_dict()}
        return json.dumps(fields, indent=2, ensure_ascii=False) + "\n"


def read_manifest(path: Path) -> Manifest:
    """Read the manifest of an `.emb` folder from its file, and check it."""
    absent = f"an .emb folder must hold {path.name}, and this one does not."
    again = "Write it again with write_embeddings or 'dptransfer encode'."
    require(path.exists(), path.parent, absent, again)
    with parsing(path, "the manifest must be JSON; it is not.", "Restore or rewrite it."):
        content = path.read_text(encoding="utf-8")
        fields: object = json.loads(content)
    version = fields.get("version") if isinstance(fields, dict) else None
    newer = isinstance(version, int) and version > VERSION
    rule = f"the manifest must have schema version {VERSION}; it has {version}."
    require(not newer, path, rule, "Upgrade dptransfer to read it.")
    try:
        found = _schema().validate_json(content)
        odd = next(_contradictions(found), None)
    except ValidationError as error:
        odd = str(next(iter(error.errors()[0]["loc"]), "the whole file"))
    if odd is not None:
        rule = f"the manifest must follow schema version {VERSION}; the field '{odd}' does not."
        raise unreadable(path, rule, "Restore or rewrite it.")
    return found


@cache
def _schema() -> TypeAdapter[Manifest]:
    """Takes longer to make than a manifest does to read."""
    return TypeAdapter(Manifest)


def _contradictions(manifest: Manifest) -> Iterator[str]:
    """Fields that contradict another."""
    if (manifest.dtype == "int8") != (manifest.scale is not None):
        yield "scale"
    if {name for name in manifest.files if name.startswith("rows-")} != set(manifest.shard_files):
        yield "shards"
