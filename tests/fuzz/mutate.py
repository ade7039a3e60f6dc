"""Damage to files, drawn from a seed: what disks, networks, editors and forgers do to them."""

import json

from dptransfer.testing.reader_rules import damage_bytes as damaged

__all__ = ["damaged", "damaged_json", "odd_text"]

ODD_VALUES = (
    None, True, 0, -1, 2**31, 2**63, -(2**63), 10**30, 1e308, -1e-308, float("nan"), float("inf"),
    "", "x" * 10_000, "../../etc/passwd", "\0", "\u202e", "\ud800", "NaN", [], [[]], [None] * 5, {}, {"a": 1},
)  # fmt: skip
"""What stands in a JSON file where something else should."""


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
