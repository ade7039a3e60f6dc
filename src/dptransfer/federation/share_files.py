"""Shares as files in a folder that all owners can read: written once, signed, and added up.

A share has the answers of one owner in one round, as integers on the grid of the question. Names of files
mean nothing; the signed header says whose share of which study and round it is, and after which history.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from dptransfer.base.types import Integers, JsonObject
from dptransfer.errors import DataError, DPTransferError
from dptransfer.federation.owner_key import OwnerKey
from dptransfer.federation.secure_sum import total
from dptransfer.federation.study import Study, read_arrays
from dptransfer.release.owners import SignedHeader, history_digest, record_bytes

ENDING = ".share"
_FORMAT = 1
_LARGEST = 2**31
_PAUSE = 0.1  # seconds between two looks at the folder


class SharesMissing(DPTransferError):
    """Shares of other owners are not there yet."""


@dataclass(frozen=True, eq=False)
class Share:
    """One owner's answers in one round.

    Attributes:
        header: as it was signed.
        answers: integers, masked in a secure sum.
        path: where it was read.
    """

    header: SignedHeader
    answers: Sequence[Integers]
    path: Path | None = None

    @classmethod
    def sign(
        cls,
        study: Study,
        owner: str,
        key: OwnerKey,
        place: tuple[int, str, str],
        asked: Sequence[tuple[str, Integers]],
    ) -> Share:
        """Sign the answers of a round.

        Args:
            study: the study.
            owner: whose.
            key: the owner's.
            place: number of the round, digest of the history before it, head of the owner's ledger.
            asked: what was asked and answered, in order.
        """
        number, after, head = place
        header = {
            "format": _FORMAT,
            "study": study.digest,
            "owner": owner,
            "round": number,
            "after": after,
            "ledger_head": head,
            "answers": [_entry(what, answer) for what, answer in asked],
        }
        return cls(key.sign(record_bytes(header).decode()), [answer for _, answer in asked])

    @property
    def fields(self) -> JsonObject:
        """The header."""
        return self.header.fields

    @property
    def content(self) -> bytes:
        """The file."""
        from safetensors.numpy import save

        arrays = {str(number): np.ascontiguousarray(one) for number, one in enumerate(self.answers)}
        found: bytes = save(arrays, {"share": json.dumps([self.header.text, self.header.signature])})
        return found

    @classmethod
    def read(cls, path: Path, study: Study) -> Share:
        """Read a share of this study, or say what is wrong with it."""
        arrays, said = read_arrays(path, "share", _LARGEST)
        try:
            header = SignedHeader(*map(str, json.loads(said)))
            fields = header.fields
            answers = [arrays[str(number)] for number in range(len(arrays))]
            listed = [
                _entry(str(one["what"]), two) for one, two in zip(fields["answers"], answers, strict=True)
            ]
            owner, found, *more = (fields[name] for name in ("owner", "study", "after", "ledger_head"))
            if not all(isinstance(one, str) for one in (owner, found, *more)):
                raise ValueError("a name or digest is no text")
            whole = fields["format"] == _FORMAT and type(fields["round"]) is int and fields["round"] >= 1
        except (LookupError, TypeError, ValueError, RecursionError) as problem:
            raise DataError(
                f"A share must be whole; '{path}' is not ({problem!r}). Ask for it again."
            ) from None
        if found != study.digest:
            raise DataError(
                f"A share belongs to one study; '{path}' is of the study {found[:12]}, and this one is "
                f"{study.digest[:12]}. Leave it out, or use the study that its owner used."
            )
        if owner not in study.owners or not header.is_signed_by(study.owners[owner]):
            raise DataError(
                f"A share is signed with the key that the study lists for its owner; '{path}' is not. "
                "It was changed or forged: ask its owner again."
            )
        if not whole or listed != fields["answers"]:
            raise DataError(
                f"A share's answers have the digests it was signed with; those of '{path}' have not."
            )
        return cls(header, answers, path)


def _entry(what: str, answer: Integers) -> JsonObject:
    if answer.dtype != np.int64:
        raise ValueError("answers are integers of 64 bits")
    digest = hashlib.sha256(np.ascontiguousarray(answer).tobytes()).hexdigest()
    return {"what": what, "shape": list(answer.shape), "sha256": digest}


@dataclass(eq=False)
class ShareFolder:
    """All shares of one study in a folder, or the files that are listed.

    Attributes:
        study: whose shares.
        places: folders, or files.
    """

    study: Study
    places: Sequence[Path]
    _seen: dict[Path, tuple[tuple[int, int], Share]] = field(default_factory=dict, repr=False)

    def put(self, share: Share) -> None:
        """Write a share under its usual name; the same is left alone, and another one is refused."""
        from dptransfer.data.atomic_files import write_whole

        fields = share.fields
        path = self.places[0] / f"{fields['owner']}.round-{fields['round']}{ENDING}"
        content = share.content
        if os.path.lexists(path):
            if not path.is_file() or path.read_bytes() != content:
                raise DataError(
                    f"An owner sends one share for a round; '{path}' is another one. It was changed: delete "
                    "it, and run this again to send the same share as before."
                )
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, content)

    def collect(self, number: int, after: str, wait: float = 0.0) -> dict[str, Share]:
        """The share of every owner in this round, in the study's order; `SharesMissing` if some are late.

        Args:
            number: of the round.
            after: digest of the history that shares must follow.
            wait: seconds to wait for them.
        """
        until = time.monotonic() + wait
        while True:
            late: DPTransferError | None = None
            try:
                found = {one.fields["owner"]: one for one in self.shares() if one.fields["round"] == number}
                missing = [owner for owner in self.study.owners if owner not in found]
                if missing:
                    late = SharesMissing(
                        f"Round {number} has a share of every owner; {', '.join(missing)} is missing. "
                        "Run the command again when it is there."
                    )
            except DataError as problem:  # perhaps it is being copied
                late = problem
            if late is None:
                break
            if time.monotonic() >= until:
                raise late
            time.sleep(_PAUSE)
        self._require_one_question(found, number, after)
        return {owner: found[owner] for owner in self.study.owners}

    def shares(self) -> list[Share]:
        """All shares, each checked; one owner has one for a round."""
        found: dict[tuple[str, int], Share] = {}
        for path in self._files():
            share = self._read(path)
            place = share.fields["owner"], share.fields["round"]
            if place in found:
                raise DataError(
                    f"An owner has one share for a round; '{found[place].path}' and '{path}' are both of "
                    f"'{place[0]}' in round {place[1]}. Remove the one that was sent by mistake."
                )
            found[place] = share
        return list(found.values())

    def _files(self) -> Iterator[Path]:
        for place in self.places:
            yield from sorted(place.glob(f"*{ENDING}")) if place.is_dir() else [place]

    def _read(self, path: Path) -> Share:
        """Read a file once, unless it changes."""
        try:
            status = path.stat()
        except OSError as problem:
            raise DataError(f"A share must be there; '{path}' is not ({problem.strerror}).") from None
        state = status.st_mtime_ns, status.st_size
        if path not in self._seen or self._seen[path][0] != state:
            self._seen[path] = state, Share.read(path, self.study)
        return self._seen[path][1]

    def _require_one_question(self, found: dict[str, Share], number: int, after: str) -> None:
        first = next(iter(found.values())).fields["answers"]
        asked = [(one["what"], one["shape"]) for one in first]
        for owner, share in found.items():
            if share.fields["after"] != after:
                raise DataError(
                    f"Shares of a round follow the same shares; that of '{owner}' in round {number} follows "
                    "others. Some were exchanged after they were sent: this study cannot go on."
                )
            if [(one["what"], one["shape"]) for one in share.fields["answers"]] != asked:
                raise DataError(
                    f"Owners answer the same questions; that of '{owner}' in round {number} differs. "
                    "Use one version of dptransfer everywhere, and plan a new study."
                )


def totals(found: dict[str, Share]) -> list[Integers]:
    """The sums of all owners' answers."""
    return [total(answers) for answers in zip(*(one.answers for one in found.values()), strict=True)]


def history_after(before: str, found: dict[str, Share]) -> str:
    """The digest that the next round follows."""
    return history_digest(before, {owner: one.header.text for owner, one in found.items()})
