"""Secret key of an owner: signs shares, and makes masks that only two owners know."""

from __future__ import annotations

import os
import re
import secrets
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from dptransfer.data.atomic_files import owner_only, write_whole
from dptransfer.errors import DataError
from dptransfer.release.owners import SignedHeader, message_of

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

_FIRST_LINE = "dptransfer owner key 1"
PUBLIC_KEY = re.compile(r"[0-9a-f]{128}")
"""Hexadecimal digits of the public half: 64 to check signatures, 64 to agree on masks."""


@dataclass(frozen=True)
class OwnerKey:
    """One secret of 32 bytes; a signing key and a key for masks are derived from it.

    >>> key = OwnerKey(bytes(32))
    >>> len(key.public), key.sign("text").is_signed_by(key.public)
    (128, True)

    Attributes:
        secret: known to the owner alone.
        path: the file that it is kept in.
    """

    secret: bytes = field(repr=False)
    path: Path | None = None

    @classmethod
    def create(cls, path: Path) -> OwnerKey:
        """A new key in a new file that its owner alone can read."""
        made = cls(secrets.token_bytes(32), path)
        try:
            write_whole(path, f"{_FIRST_LINE}\n{made.secret.hex()}\n".encode(), opener=owner_only)
        except FileExistsError:
            raise DataError(f"A key is never replaced; '{path}' exists. Choose another name.") from None
        return made

    @classmethod
    def load(cls, path: Path) -> OwnerKey:
        """The key in this file."""
        try:
            if os.name == "posix" and path.stat().st_mode & 0o077:
                raise DataError(
                    f"A key is for its owner alone; others may read '{path}'. Run: chmod 600 {path}"
                )
            first, secret = path.read_text("ascii").split("\n")[:2]
            found = cls(bytes.fromhex(secret), path)
        except OSError as problem:
            raise DataError(
                f"A key must be readable; '{path}' is not ({problem.strerror}). "
                "Make one with: dptransfer federate key"
            ) from None
        except (ValueError, UnicodeDecodeError) as problem:
            if isinstance(problem, DataError):
                raise
            raise _no_key(path) from None
        if first != _FIRST_LINE or len(found.secret) != 32:
            raise _no_key(path)
        return found

    @property
    def public(self) -> str:
        """What a study lists for this owner."""
        signing, masking = self._signing.public_key(), self._masking.public_key()
        return signing.public_bytes_raw().hex() + masking.public_bytes_raw().hex()

    def sign(self, header: str) -> SignedHeader:
        """The header with this owner's signature."""
        return SignedHeader(header, self._signing.sign(message_of(header)).hex())

    def secret_shared_with(self, public: str) -> bytes:
        """32 bytes that this owner and the owner of that public key alone can compute."""
        from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PublicKey

        return self._masking.exchange(X25519PublicKey.from_public_bytes(bytes.fromhex(public)[32:]))

    @property
    def _signing(self) -> Ed25519PrivateKey:
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        return Ed25519PrivateKey.from_private_bytes(derived_key(self.secret, b"", "owner key: signatures"))

    @property
    def _masking(self) -> X25519PrivateKey:
        from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

        return X25519PrivateKey.from_private_bytes(derived_key(self.secret, b"", "owner key: masks"))


def derived_key(secret: bytes, salt: bytes, purpose: str) -> bytes:
    """32 bytes for one purpose, by HKDF with SHA-256."""
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF

    return HKDF(SHA256(), 32, salt, f"dptransfer {purpose}".encode()).derive(secret)


def _no_key(path: Path) -> DataError:
    return DataError(f"A key is a file of 'dptransfer federate key'; '{path}' is none. Make one.")
