"""Damage to files, drawn from a seed: what disks, networks, editors and forgers do to them."""

import json

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

ODD_VALUES = (
    None,
    True,
    0,
    -1,
    2**31,
    2**63,
    -(2**63),
    10**30,
    1e308,
    -1e-308,
    float("nan"),
    float("inf"),
    "",
    "x" * 10_000,
    "../../etc/passwd",
    "\0",
    "\u202e",
    "\ud800",
    "NaN",
    [],
    [[]],
    [None] * 5,
    {},
    {"a": 1},
)
"""What stands in a JSON file where something else should."""


def damaged(content, dice, donor=b""):
    """The bytes after one or a few accidents; `donor` is where spliced-in pieces come from."""
    changed = bytearray(content)
    for _ in range(dice.choice((1, 1, 1, 2, 5, 30))):
        if not changed:
            break
        dice.choice(_ACCIDENTS)(changed, dice, donor or bytes(content))
    return bytes(changed)


def damaged_json(text, dice):
    """The same JSON with one to three values removed, replaced, nudged, repeated, swapped or added."""
    whole = json.loads(text)
    for _ in range(dice.choice((1, 1, 1, 2, 3))):
        places = list(_places(whole))
        if not places:
            break
        _edit(*dice.choice(places), dice)
        try:
            text = json.dumps(whole, indent=1)
        except ValueError:  # a value was put into itself, which no file can hold
            break
    return text


def odd_text(dice):
    """A short text that parsers of text files stumble over."""
    return dice.choice(
        ('"', "\n", "\r", "\0", ",", ";", "\t", "\ufeff", "é", "\u202e", "'", "\\", " " * 50, "1e999")
    )


def _flip(content, dice, donor):
    content[dice.randrange(len(content))] ^= 1 << dice.randrange(8)


def _overwrite(content, dice, donor):
    content[dice.randrange(len(content))] = dice.randrange(256)


def _remove(content, dice, donor):
    start = dice.randrange(len(content))
    del content[start : start + dice.randrange(1, 40)]


def _truncate(content, dice, donor):
    del content[dice.randrange(len(content)) :]


def _insert(content, dice, donor):
    start = dice.randrange(len(content))
    content[start:start] = dice.randbytes(dice.randrange(1, 20))


def _repeat(content, dice, donor):
    start = dice.randrange(len(content))
    piece = content[start : start + dice.randrange(1, 200)]
    content[start:start] = piece


def _splice(content, dice, donor):
    start, taken = dice.randrange(len(content)), dice.randrange(len(donor))
    length = dice.choice((1, 8, 64, 512))
    content[start : start + length] = donor[taken : taken + length]


def _edge(content, dice, donor):
    start, number = dice.randrange(len(content)), dice.choice(EDGES)
    content[start : start + len(number)] = number


def _edge_early(content, dice, donor):
    """Sizes, counts and offsets stand in a file's first bytes, or in its last."""
    start, number = dice.randrange(min(96, len(content))), dice.choice(EDGES)
    if dice.random() < 0.5:
        start = len(content) - 1 - start
    content[start : start + len(number)] = number


def _break_text(content, dice, donor):
    """A byte that is not UTF-8 where there are letters."""
    start = dice.randrange(len(content))
    for place in range(start, min(start + 400, len(content))):
        if chr(content[place]).isalpha():
            content[place] = dice.choice((0xFF, 0x80, 0xC3))
            return


def _digits(content, dice, donor):
    """Another digit where there is one."""
    start = dice.randrange(len(content))
    for place in range(start, min(start + 400, len(content))):
        if 48 <= content[place] <= 57:
            content[place : place + 1] = dice.choice((b"0", b"9", b"-1", b"99999999999", b"1e9", b"."))
            return


_ACCIDENTS = (
    _flip, _overwrite, _remove, _truncate, _insert, _repeat, _splice, _edge, _edge_early, _break_text, _digits
)  # fmt: skip


def _places(node):
    """Every (container, key) of a JSON document."""
    keys = list(node) if isinstance(node, dict) else range(len(node)) if isinstance(node, list) else ()
    for key in keys:
        yield node, key
        yield from _places(node[key])


def _edit(node, key, dice):
    value, kind = node[key], dice.random()
    if kind < 0.15:
        del node[key]
    elif kind < 0.25 and isinstance(node, dict):
        node[dice.choice(("extra", "", "kind", key + " "))] = dice.choice(ODD_VALUES)
    elif kind < 0.35 and isinstance(node, list):
        node.insert(key, value)
    elif kind < 0.45:
        other = dice.choice(list(node) if isinstance(node, dict) else range(len(node)))
        node[key], node[other] = node[other], value
    elif kind < 0.7 and isinstance(value, int | float) and not isinstance(value, bool):
        node[key] = dice.choice(
            (value + 1, value - 1, -value, value * 0.5, value * 1000, str(value), float(value))
        )
    elif kind < 0.8 and isinstance(value, str) and value:
        node[key] = dice.choice((value[:-1], value + value, value.upper(), value[::-1]))
    else:
        node[key] = dice.choice(ODD_VALUES)
