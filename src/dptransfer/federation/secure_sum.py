"""Masks between pairs of owners, which cancel in the total of all shares and nowhere else.

Owners i < j agree on a secret by X25519, from the keys that the study lists. For each answer of each round a
key follows from it by HKDF, and AES-256 in counter mode gives a stream of words of 64 bits. Owner i adds the
stream to its share and owner j subtracts it, modulo 2⁶⁴. So the sum of all shares is that without masks.

**What is seen.** Let a coalition know the keys of t owners. The masks among the others are streams that it
cannot tell from uniform words: X25519 keys of two honest owners give a secret that it cannot tell from a
random one, HKDF's outputs for different purposes are then independent keys, and each key is used for one
stream. Fix an honest owner h. Adding independent uniform vectors on the edges of the complete graph of the
k − t honest owners, with opposite signs at both ends, gives k − t vectors that are uniform among those whose
sum is zero: the edges at h alone make the other k − t − 1 masks independent and uniform, and the rest follows
from the sum. So the coalition learns the total of the honest shares, and nothing else about them.

**Noise.** Each share has noise of variance σ²/(k − t), so the honest total has variance σ², whatever the
coalition knows of its own noise. A sum of discrete Gaussians is a discrete Gaussian, almost: let X have
P(x) ∝ exp(−x²/2a²), Y ∝ exp(−y²/2b²), s² = a² + b² and τ = ab/s. Since
x²/a² + (z − x)²/b² = z²/s² + (x − z·a²/s²)²/τ²,

    P(X + Y = z) ∝ exp(−z²/2s²) · Σ_x exp(−(x − c_z)²/2τ²),   c_z = z·a²/s².

By Poisson summation the sum over x is √(2π)·τ·(1 + 2·Σ_{m≥1} exp(−2π²τ²m²)·cos(2πm·c_z)), so it is within a
factor 1 ± η of √(2π)·τ for every z, with η = 2.1·exp(−2π²τ²) for τ ≥ 1. After normalising, the law of X + Y
is within exp(±3η) of the discrete Gaussian of variance s², point by point. Add n shares of variance a² one by
one: the j-th time τ² = a²·j/(j + 1) ≥ a²/2, and a pointwise factor is kept by every further sum. So the total
is within exp(±7n·exp(−π²a²)), and ε grows by at most twice the exponent. With a ≥ 16 steps (`FEWEST_STEPS`,
checked) and n ≤ 64 that is below 10⁻¹⁰⁰⁰, far less than the rounding by which every ε is reported above.
Kairouz, Liu and Steinke (2021) have the same with other constants.

**Once.** Keys, study, round and history determine the masks, and the noise of a round is drawn once
(`owner_run`). So an owner sends one message for a round, and two totals of one round never exist whose
difference would tell anything. An owner that is missing leaves the others' masks in the sum: the round is
lost, and with it the study. Nothing is drawn again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from dptransfer.base.types import Integers
from dptransfer.federation.owner_key import OwnerKey, derived_key

FEWEST_STEPS = 16.0
"""Smallest standard deviation of the noise in one share, in steps of the grid."""
MOST_OWNERS = 64


def add_masks(
    answers: Sequence[Integers], key: OwnerKey, owner: str, owners: Mapping[str, str], after: str
) -> list[Integers]:
    """An owner's answers with the masks it shares with each other owner.

    Args:
        answers: of one round.
        key: the owner's.
        owner: its name.
        owners: public keys by name, in the order of the study.
        after: digest of study and history; masks are for this round alone.
    """
    found = [answer.astype(np.int64).view(np.uint64).copy() for answer in answers]
    places = {name: place for place, name in enumerate(owners)}
    for other, public in owners.items():
        if other == owner:
            continue
        shared, pair = key.secret_shared_with(public), sorted((owner, other), key=places.__getitem__)
        for number, words in enumerate(found):
            purpose = f"mask {number} of {'|'.join(pair)}"
            stream = _stream(derived_key(shared, bytes.fromhex(after), purpose), words.size)
            words += (stream if owner == pair[0] else -stream).reshape(words.shape)
    return [words.view(np.int64) for words in found]


def _stream(key: bytes, count: int) -> np.ndarray[tuple[int, ...], np.dtype[np.uint64]]:
    """So many words of AES-256 in counter mode."""
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

    cipher = Cipher(algorithms.AES256(key), modes.CTR(bytes(16))).encryptor()
    return np.frombuffer(cipher.update(bytes(8 * count)), dtype="<u8").astype(np.uint64)


def total(shares: Sequence[Integers]) -> Integers:
    """The sum of shares, modulo 2⁶⁴."""
    found = np.zeros(shares[0].shape, dtype=np.uint64)
    for share in shares:
        found += share.view(np.uint64)
    return found.view(np.int64)
