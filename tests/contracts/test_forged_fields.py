"""Whoever changes a field of a release is found out, or the field is one that `verify` calls unverifiable."""

from dataclasses import replace
from fnmatch import fnmatchcase

import numpy as np
import pytest

from dptransfer import evaluate
from dptransfer.data import PrivateEmbeddings
from dptransfer.ledger import Ledger
from dptransfer.methods import METHODS, MeanPrototypes, NoisyGD, PrivateTuning, TransferPATE
from dptransfer.methods.heads import start
from dptransfer.methods.replan import verify_release
from dptransfer.noise import SeededNoise
from dptransfer.privacy import Relation
from dptransfer.release.verify import UNVERIFIABLE

from .forgeries import forged_outcome, forgeries, record
from .method_suite import CLASSES, POOL, budget_for, fitted, ordinary, private
from .test_method_suite import small

FREE = tuple(pattern for patterns in UNVERIFIABLE.values() for pattern in patterns.split())


@pytest.fixture(autouse=True)
def names_without_a_model(monkeypatch):
    monkeypatch.setattr(start, "encoded_names", lambda _, classes, width: np.eye(len(classes), width))


def made(method, data, relation=Relation.ADD_REMOVE, **options):
    budget, given = budget_for(method, relation), {"ledger": Ledger.in_memory(), "noise": SeededNoise(1)}
    return method.fit(data, POOL, budget=budget, **given, **options)


def with_holdout_and_results():
    model = made(MeanPrototypes(), private(), holdout=0.3)
    return model, evaluate(model, *ordinary(), name="others")


def of_people_under_replace_one():
    x, y = ordinary()
    told = {"people": np.arange(len(x)) // 3, "person_bound": 2.0, "rows_per_person": 3.0}
    data = PrivateEmbeddings(x, y, classes=CLASSES, **told)
    return made(NoisyGD(steps=5), data, Relation.REPLACE_ONE, holdout=0.3), None


def with_a_threshold():
    return made(TransferPATE(teachers=5, queries=8, threshold=2.0, answers=6), private()), None


def tuned():
    return fitted(PrivateTuning(candidates=(NoisyGD(steps=5), MeanPrototypes()))), None


MORE = {
    one.__name__: one
    for one in (with_holdout_and_results, of_people_under_replace_one, with_a_threshold, tuned)
}
RELEASES = {**MORE, **{name: None for name in METHODS}}


def saved(name, folder):
    """As if the noise had been secret, which no file tells."""
    model, results = (fitted(small(name)), None) if RELEASES[name] is None else RELEASES[name]()
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
    assert found.publishers_word == tuple(UNVERIFIABLE)
    assert found.to_dict()["publishers_word"] == list(UNVERIFIABLE)


PROMISES = ("guarantee.epsilon", "guarantee.unit", "events.0.sensitivity", "events.0.scale", "facts.unit")


def test_no_field_that_promises_anything_is_called_unverifiable():
    told = [*PROMISES, "delta", "relation", "facts.person_bound", "method.name", "method.summary"]
    assert not [path for path in told if is_free(path)]
