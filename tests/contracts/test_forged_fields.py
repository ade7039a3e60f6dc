"""Whoever changes a field of a release is found out, or the field is one that `verify` calls unverifiable."""

import copy
import json
import shutil
from contextlib import suppress
from dataclasses import replace
from fnmatch import fnmatchcase

import numpy as np
import pytest

from dptransfer import evaluate
from dptransfer.data import PrivateEmbeddings
from dptransfer.errors import DPTransferError
from dptransfer.ledger import Ledger
from dptransfer.methods import METHODS, MeanPrototypes, NoisyGD, PrivateTuning, TransferPATE
from dptransfer.methods.replan import verify_release
from dptransfer.noise import SeededNoise
from dptransfer.privacy import Guarantee, Relation
from dptransfer.release.bundle import read_evaluation, read_release
from dptransfer.release.exchange import text_files
from dptransfer.release.verify import UNVERIFIABLE
from dptransfer.testing.sample_data import CLASSES, POOL, ROWS, budget_for, fit_sample, ordinary_rows
from release.models import rewrite

from .test_method_suite import small

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
        written = text_files(read_release(scratch), read_evaluation(scratch))
    except (DPTransferError, TypeError, ValueError, KeyError, AttributeError):
        return verify_release(scratch).outcome
    files = {name: text.encode() for name, text in written.items()}
    rewrite(scratch, lambda fields: None, content=files)
    return verify_release(scratch).outcome


def _state_again(fields):
    """The sentence of the changed guarantee, where one can be written."""
    fields["relation"], fields["delta"] = fields["guarantee"]["relation"], fields["guarantee"]["delta"]
    with suppress(ValueError, TypeError, KeyError):
        fields["guarantee"]["sentence"] = str(Guarantee.from_dict(fields["guarantee"]))


def record(release):
    return json.loads((release / "release.json").read_text())


FREE = """
about.* created charged_evaluation.created library_version versions.* ledger_head
charged_evaluation.ledger_head facts.classes.* facts.size facts.class_counts* facts.rows_per_person
facts.columns* facts.encoder* facts.shape.* encoder_delta.base.* public.* prototypes.* answers.*
features.pool method.configuration.* notes* evaluation* witnesses* head.temperature
charged_evaluation.counts.blocks.* simulated_calibration.* seeded publishable
charged_evaluation.seeded
""".split()
"""The fields of release.json that say what is the publisher's word."""


def made(method, data, relation=Relation.ADD_REMOVE, **options):
    budget, given = budget_for(method, relation), {"ledger": Ledger.in_memory(), "noise": SeededNoise(1)}
    return method.fit(data, POOL, budget=budget, **given, **options)


def with_holdout_and_results():
    model = made(MeanPrototypes(), ROWS.private(), holdout=0.3)
    return model, evaluate(model, *ordinary_rows(), name="others")


def of_people_under_replace_one():
    x, y = ordinary_rows()
    told = {"people": np.arange(len(x)) // 3, "person_bound": 2.0, "rows_per_person": 3.0}
    data = PrivateEmbeddings(x, y, classes=CLASSES, **told)
    return made(NoisyGD(steps=5), data, Relation.REPLACE_ONE, holdout=0.3), None


def with_a_threshold():
    return made(TransferPATE(teachers=5, queries=8, threshold=2.0, answers=6), ROWS.private()), None


def tuned():
    return fit_sample(PrivateTuning(candidates=(NoisyGD(steps=5), MeanPrototypes()))), None


MORE = {
    one.__name__: one
    for one in (with_holdout_and_results, of_people_under_replace_one, with_a_threshold, tuned)
}
RELEASES = {**MORE, **{name: None for name in METHODS}}


def saved(name, folder):
    """As if the noise had been secret, which no file tells."""
    model, results = (fit_sample(small(name)), None) if RELEASES[name] is None else RELEASES[name]()
    charged = None if model.charged is None else replace(model.charged, seeded=False)
    model = replace(model, provenance=replace(model.provenance, seeded=False), charged=charged)
    return model.save(folder, evaluation=results)


def is_free(path):
    return any(fnmatchcase(path, pattern) for pattern in FREE)


@pytest.mark.slow
@pytest.mark.parametrize("name", RELEASES)
def test_a_changed_field_is_noticed_or_is_said_to_be_unverifiable(name, tmp_path):
    release = saved(name, tmp_path / "release")
    assert verify_release(release).outcome == "verified"
    told = record(release)
    unnoticed = {
        ".".join(map(str, path)): other
        for path, other in forgeries(told)
        if not is_free(".".join(map(str, path)))
        and not (path[-1] == "delta" and other > told["delta"])  # a weaker promise may be true
        and forged_outcome(release, tmp_path / "copy", path, other) == "verified"
    }
    assert unnoticed == {}
    assert forged_outcome(release, tmp_path / "copy", ("created",), "long ago") == "verified"


def test_what_is_called_unverifiable_is_named_by_a_verification(tmp_path):
    found = verify_release(saved("mean", tmp_path / "release"))
    assert found.publishers_word == UNVERIFIABLE
    assert found.to_dict()["publishers_word"] == list(UNVERIFIABLE)


PROMISES = ("guarantee.epsilon", "guarantee.unit", "events.0.sensitivity", "events.0.scale", "facts.unit")


def test_no_field_that_promises_anything_is_called_unverifiable():
    told = [*PROMISES, "delta", "relation", "facts.person_bound", "method.name", "method.summary"]
    assert not [path for path in told if is_free(path)]
