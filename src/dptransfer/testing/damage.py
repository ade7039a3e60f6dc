"""Damage to files, drawn from a seed: what disks, networks, editors and forgers do to them."""

from __future__ import annotations

import random

EDGES = (
    b"\xff" * 8,
    b"\0" * 8,
    b"\xff" * 7 + b"\x7f",
    b"\0" * 7 + b"\x80",
    b"99999999",
    b"-1",
    b"1e999",
    b"nan",
)
"""Numbers at the edges, as eight bytes or as text."""


def damage_bytes(content: bytes, dice: random.Random, donor: bytes = b"") -> bytes:
    """The bytes after one or a few accidents; `donor` is where spliced-in pieces come from."""
    changed = bytearray(content)
    for _ in range(dice.choice((1, 1, 1, 2, 5, 30))):
        if not changed:
            break
        dice.choice(_ACCIDENTS)(changed, dice, donor or bytes(content))
    return bytes(changed)


def _flip(content: bytearray, dice: random.Random, donor: bytes) -> None:
    content[dice.randrange(len(content))] ^= 1 << dice.randrange(8)


def _overwrite(content: bytearray, dice: random.Random, donor: bytes) -> None:
    content[dice.randrange(len(content))] = dice.randrange(256)


def _remove(content: bytearray, dice: random.Random, donor: bytes) -> None:
    start = dice.randrange(len(content))
    del content[start : start + dice.randrange(1, 40)]


def _truncate(content: bytearray, dice: random.Random, donor: bytes) -> None:
    del content[dice.randrange(len(content)) :]


def _insert(content: bytearray, dice: random.Random, donor: bytes) -> None:
    start = dice.randrange(len(content))
    content[start:start] = dice.randbytes(dice.randrange(1, 20))


def _repeat(content: bytearray, dice: random.Random, donor: bytes) -> None:
    start = dice.randrange(len(content))
    piece = content[start : start + dice.randrange(1, 200)]
    content[start:start] = piece


def _splice(content: bytearray, dice: random.Random, donor: bytes) -> None:
    start, taken = dice.randrange(len(content)), dice.randrange(len(donor))
    length = dice.choice((1, 8, 64, 512))
    content[start : start + length] = donor[taken : taken + length]


def _edge(content: bytearray, dice: random.Random, donor: bytes) -> None:
    start, number = dice.randrange(len(content)), dice.choice(EDGES)
    content[start : start + len(number)] = number


def _edge_early(content: bytearray, dice: random.Random, donor: bytes) -> None:
    """Sizes, counts and offsets stand in a file's first bytes, or in its last."""
    start, number = dice.randrange(min(96, len(content))), dice.choice(EDGES)
    if dice.random() < 0.5:
        start = len(content) - 1 - start
    content[start : start + len(number)] = number


def _break_text(content: bytearray, dice: random.Random, donor: bytes) -> None:
    """A byte that is not UTF-8 where there are letters."""
    start = dice.randrange(len(content))
    for place in range(start, min(start + 400, len(content))):
        if chr(content[place]).isalpha():
            content[place] = dice.choice((0xFF, 0x80, 0xC3))
            return


def _digits(content: bytearray, dice: random.Random, donor: bytes) -> None:
    """Another digit where there is one."""
    start = dice.randrange(len(content))
    for place in range(start, min(start + 400, len(content))):
        if 48 <= content[place] <= 57:
            content[place : place + 1] = dice.choice((b"0", b"9", b"-1", b"99999999999", b"1e9", b"."))
            return


_ACCIDENTS = (
    _flip, _overwrite, _remove, _truncate, _insert, _repeat, _splice, _edge, _edge_early, _break_text, _digits
)  # fmt: skip
