"""Releases in which one field was changed and the rest put right: checksums, sentence and cards."""

import copy
import json
import shutil
from contextlib import suppress

from dptransfer.errors import DPTransferError
from dptransfer.methods.replan import verify_release
from dptransfer.privacy import Guarantee
from dptransfer.release.bundle import read_evaluation, read_release
from dptransfer.release.card import card_of
from release.models import rewrite

_OF_THE_FILE = ("digest", "files", "arrays")  # which are put right, or are checked against the weights
_MOST = 2  # of the entries of a long list


def leaves(value, path=()):
    """Paths of all plain values; of a long list, of its first and its last."""
    if isinstance(value, dict):
        for name, own in value.items():
            yield from leaves(own, (*path, name))
    elif isinstance(value, list):
        yield path
        for place in sorted({*range(min(len(value), _MOST - 1)), *range(max(0, len(value) - 1), len(value))}):
            yield from leaves(value[place], (*path, place))
    else:
        yield path


def others(value):
    """Values that a forger might put in the place of this one."""
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int):
        return [value + 1, max(0, value - 1), 10 * value + 3]
    if isinstance(value, float):
        return [value * 0.5, value * 1.05, value + 0.25]
    if isinstance(value, str):
        return [f"{value} x", ""]
    if value is None:
        return ["x", 1, 0.5]
    return [[], value[:-1], [*value, *value[-1:]]] if value else [[1], ["x"]]


def forgeries(fields):
    """(path, changed fields) for every field and every other value."""
    for path in leaves({name: own for name, own in fields.items() if name not in _OF_THE_FILE}):
        for other in others(_at(fields, path)):
            if other != _at(fields, path):
                yield path, other


def _at(fields, path):
    for name in path:
        fields = fields[name]
    return fields


def forged_outcome(release, scratch, path, other):
    """What verification says of a copy with this value there, and with everything else put right."""
    shutil.rmtree(scratch, ignore_errors=True)
    shutil.copytree(release, scratch)

    def change(fields):
        _at(fields, path[:-1])[path[-1]] = copy.deepcopy(other)
        if path[:1] == ("guarantee",) and path != ("guarantee", "sentence"):
            _state_again(fields)
        if path[0] in ("relation", "delta"):
            fields["guarantee"][path[0]] = other
            _state_again(fields)

    try:
        rewrite(scratch, change)
        card = card_of(read_release(scratch), read_evaluation(scratch))
    except (DPTransferError, TypeError, ValueError, KeyError, AttributeError):
        return verify_release(scratch).outcome
    files = {"CARD.md": card.markdown().encode(), "card.html": card.html().encode()}
    rewrite(scratch, lambda fields: None, content=files)
    return verify_release(scratch).outcome


def _state_again(fields):
    """The sentence of the changed guarantee, where one can be written."""
    fields["relation"], fields["delta"] = fields["guarantee"]["relation"], fields["guarantee"]["delta"]
    with suppress(ValueError, TypeError, KeyError):
        fields["guarantee"]["sentence"] = str(Guarantee.from_dict(fields["guarantee"]))


def record(release):
    return json.loads((release / "release.json").read_text())
