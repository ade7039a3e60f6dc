"""Record of a joint release: its study, the last signed share of each owner, and what their promises rest on.

A share is signed together with the digest of all shares before it (`history_digest`). So the signatures of
the last round bind every owner to all rounds. They show who took part with which key and ledger entry; they
do not show that the noise was drawn.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dptransfer.accounting import guarantee_of
from dptransfer.base import document as doc
from dptransfer.base.types import JsonObject
from dptransfer.errors import DataError, DPTransferError
from dptransfer.privacy import Event, Guarantee, event_from_dict, for_group, rounded_up, typeset

if TYPE_CHECKING:
    from dptransfer.release.manifest import Manifest

FILES, SECURE_SUM = "files", "secure-sum"
TRUST = (FILES, SECURE_SUM)
"""Ways to add shares: each with all of an owner's noise, or masked, so that only the total is seen."""
NOT_PROMISED = (
    "Not promised: that owners tell the truth about their rows, that nobody learns who took part, or that an "
    "owner's own noise stays out of reach of that owner."
)
_SIGNED = b"dptransfer share\0"


def record_bytes(fields: Mapping[str, Any]) -> bytes:
    """The one way in which a study or a header is written, so that its digest is its own."""
    return json.dumps(fields, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()


def record_digest(fields: Mapping[str, Any]) -> str:
    """SHA-256 of it."""
    return hashlib.sha256(record_bytes(fields)).hexdigest()


def history_digest(before: str, headers: Mapping[str, str]) -> str:
    """Digest of all shares up to a round.

    Args:
        before: of all up to the round before; the study's digest before the first.
        headers: by owner, the header of the share of this round.
    """
    each = [[owner, hashlib.sha256(text.encode()).hexdigest()] for owner, text in sorted(headers.items())]
    return hashlib.sha256(json.dumps([before, each]).encode()).hexdigest()


@dataclass(frozen=True)
class SignedHeader:
    """Header of a share, as it was signed.

    Attributes:
        text: JSON: format, study, owner, round, the digest `after` which it comes, ledger entry and answers.
        signature: of the text, in hexadecimal.
    """

    text: str
    signature: str

    @property
    def fields(self) -> JsonObject:
        """The header itself."""
        found = json.loads(self.text)
        if not isinstance(found, dict):
            raise ValueError("a header is a JSON object")
        return found

    def is_signed_by(self, public_key: str) -> bool:
        """Whether the owner with this public key signed it."""
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

        try:
            key = Ed25519PublicKey.from_public_bytes(bytes.fromhex(public_key)[:32])
            key.verify(bytes.fromhex(self.signature), message_of(self.text))
        except (InvalidSignature, ValueError):
            return False
        return True


def message_of(header: str) -> bytes:
    """What is signed; the words in front keep the signature from being one of anything else."""
    return _SIGNED + header.encode()


def noise_factor(trust: str, owners: int, colluders: int) -> float:
    """Standard deviation of the noise of a total, in those of one fit with one owner's promise.

    By files each owner adds all of it, so variances add up to k. In a secure sum each owner adds the
    (k − t)-th part of the variance, so that the noise of those who do not collude is that of one fit.

    >>> noise_factor(FILES, 4, 0), noise_factor(SECURE_SUM, 4, 0), noise_factor(SECURE_SUM, 4, 3)
    (2.0, 1.0, 2.0)
    """
    return math.sqrt(owners if trust == FILES else owners / (owners - colluders))


def for_person_of_two(events: Sequence[Event], promise: Guarantee, trust: str) -> Guarantee:
    """What is promised to a person known to two owners who do not know of each other's.

    By files these are two independent releases. In a secure sum both contributions are under one noise, so
    the answer moves by twice as much.
    """
    twice = [*events, *events] if trust == FILES else [for_group(event, 2) for event in events]
    return guarantee_of(twice, promise.delta, promise.assumptions)


def against_whom(study: Mapping[str, Any]) -> str:
    """Against whom an owner's promise holds, in words."""
    if study["trust"] == FILES:
        return "everyone, all other owners together included"
    others = int(study["colluders"])
    who = {0: "no other owner", 1: "at most one other owner"}.get(others, f"at most {others} other owners")
    return f"everyone who works together with {who}"


def owners_blocks(
    record: Mapping[str, Any] | None, events: Sequence[Event], promise: Guarantee
) -> Iterator[doc.Block]:
    """Of a joint release one line for each owner, and what the promise does and does not cover."""
    if record is None:
        return
    study, unit = record["study"], promise.unit.words
    amount, against = f"ε = {typeset(rounded_up(promise.epsilon))}", against_whom(study)
    entries = {one["owner"]: one["ledger_head"] for one in map(_fields_of, record["shares"])}
    rows = tuple(
        (name, key[:16], f"{amount} for each {unit} of this owner, against {against}", entries[name])
        for name, key in study["owners"].items()
    )
    begins = (
        f"Study '{study['name']}' of {len(rows)} owners, digest {record['digest']}. Each owner charged a "
        "ledger of its own before it drew noise."
    )
    twice = typeset(rounded_up(for_person_of_two(events, promise, study["trust"]).epsilon))
    ends = f"If two owners have the same {unit}, its ε is {twice} at the same δ; remove duplicates before."
    if study["trust"] == SECURE_SUM:
        masks = "Masks rest on X25519, HKDF and AES-256-CTR: the promise holds for bounded computing power."
        ends = f"{masks} {ends}"
    yield doc.Paragraph(begins)
    yield doc.Table.of("Owner | Key | Promise | Ledger head", rows)
    yield doc.Paragraph(f"{ends} {NOT_PROMISED}")


def _fields_of(share: Mapping[str, str]) -> JsonObject:
    return SignedHeader(share["header"], share["signature"]).fields


def check_owners(record: Mapping[str, Any], manifest: Manifest) -> str:
    """What the record shows; raises DataError where it contradicts itself or the release.

    Args:
        record: the study, its digest, and the shares of the last round.
        manifest: of the release.
    """
    try:
        return _checked(record, manifest)
    except DataError:
        raise
    except (DPTransferError, LookupError, TypeError, ValueError, AttributeError) as problem:  # a forger's
        raise DataError(f"the record of owners cannot be read ({problem!r})") from None


def _checked(record: Mapping[str, Any], manifest: Manifest) -> str:
    study, digest = record["study"], record["digest"]
    own = {"facts": manifest.facts.to_dict(), "method": manifest.method.configuration}
    own |= {name: getattr(manifest, name) for name in ("relation", "delta", "public")}
    _require(record_digest(study) == digest, "the study has another digest than stated")
    _require(_same_events(study["events"], manifest.events), "the steps are not those of the study")
    for name, stated in own.items():
        _require(study[name] == stated, f"{name} is not that of the study")
    headers = [SignedHeader(one["header"], one["signature"]) for one in record["shares"]]
    found = [one.fields for one in headers]
    _require([one["owner"] for one in found] == list(study["owners"]), "not every owner has one share")
    _require(all(isinstance(one["ledger_head"], str) for one in found), "a ledger head is no text")
    _require(len({(one["round"], one["after"]) for one in found}) == 1, "shares are of different rounds")
    for header, fields in zip(headers, found, strict=True):
        signed = header.is_signed_by(study["owners"][fields["owner"]]) and fields["study"] == digest
        _require(signed, f"the share of '{fields['owner']}' was not signed by its key for this study")
    _require(study["trust"] in TRUST and study["colluders"] in range(len(found)), "nobody can be trusted so")
    return f"{len(found)} owners signed; each promise holds against {against_whom(study)}"


def _same_events(recorded: Iterable[JsonObject], stated: Iterable[JsonObject]) -> bool:
    return list(map(event_from_dict, recorded)) == list(map(event_from_dict, stated))


def _require(holds: bool, otherwise: str) -> None:
    if not holds:
        raise DataError(otherwise)
