"""Audits of releases: sound ones are green, broken ones red, and the record follows its schema."""

import json
from dataclasses import replace
from importlib.resources import files

import numpy as np
import pytest

from dptransfer.audit.audit_page import audit_document
from dptransfer.audit.evidence import choice_law, judge, noise_tests
from dptransfer.audit.release_audit import audit_release, record_bytes, second_epsilon
from dptransfer.data import PrivateEmbeddings, PublicEmbeddings
from dptransfer.exact.feature_map import FittedUnitNorm
from dptransfer.ledger import Ledger
from dptransfer.mechanisms import RoundsLeft, Selection
from dptransfer.methods import METHODS, MeanPrototypes, NoisyGD, PublicPrototypes
from dptransfer.methods.tuning import PrivateTuning
from dptransfer.noise import SecureNoise, SeededNoise, integer_noise
from dptransfer.privacy import Budget, Relation

CLASSES = ("a", "b", "c")


def rows(count=200, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, count)
    return rng.normal(size=(count, 6)) + 2 * np.eye(3, 6)[y], y


def released(folder, method=None, *, ledger=None, relation=Relation.ADD_REMOVE, people=None, epsilon=1.0):
    data = PrivateEmbeddings(*rows(), classes=CLASSES, name="samples", people=people)
    x, y = rows(60, 1)
    shots = PublicEmbeddings(x[:12], y[:12], classes=CLASSES)
    pool = PublicEmbeddings(x[12:]).with_shots(shots)
    budget = Budget(epsilon=epsilon, delta=1e-5, relation=relation)
    model = (method or MeanPrototypes()).fit(data, pool, budget=budget, ledger=ledger or Ledger.in_memory())
    return model.save(folder / "model")


def violations(value, schema, root, place="record"):
    """Where a value breaks the schema: of JSON Schema, the words that the file uses."""
    if "$ref" in schema:
        return violations(value, root["$defs"][schema["$ref"].rpartition("/")[2]], root, place)
    if "anyOf" in schema:
        tried = [violations(value, one, root, place) for one in schema["anyOf"]]
        return [] if [] in tried else tried[0]
    kinds = {"object": dict, "array": list, "string": str, "null": type(None), "boolean": bool}
    kinds |= {"number": (int, float), "integer": int}
    wanted = schema.get("type", [])
    wanted = [wanted] if isinstance(wanted, str) else wanted
    if wanted and not any(isinstance(value, kinds[one]) for one in wanted):
        return [f"{place} is a {type(value).__name__}"]
    found = []
    if "const" in schema and value != schema["const"]:
        found.append(f"{place} is {value}")
    if "enum" in schema and value not in schema["enum"]:
        found.append(f"{place} is {value}")
    if isinstance(value, int | float) and not isinstance(value, bool):
        if not schema.get("minimum", value) <= value <= schema.get("maximum", value):
            found.append(f"{place} is {value}")
    if isinstance(value, list) and "items" in schema:
        for number, one in enumerate(value):
            found += violations(one, schema["items"], root, f"{place}[{number}]")
    if isinstance(value, dict):
        own = schema.get("properties", {})
        found += [f"{place} lacks {name}" for name in schema.get("required", ()) if name not in value]
        for name, one in value.items():
            rest = schema.get("additionalProperties", True)
            if name in own or isinstance(rest, dict):
                found += violations(one, own.get(name, rest), root, f"{place}.{name}")
            elif not rest:
                found.append(f"{place} has {name}")
    return found


def schema():
    return json.loads(files("dptransfer.audit").joinpath("audit.schema.json").read_text())


@pytest.mark.parametrize("relation", Relation)
@pytest.mark.parametrize(
    "name", ["mean", "noisy-gd", "dpsgd", "public", "public-prior", "transfer-pate", "private-knn"]
)
def test_sound_releases_are_green_and_their_records_follow_the_schema(name, relation, tmp_path):
    found = audit_release(released(tmp_path, METHODS[name](), relation=relation), quick=True)
    assert (found.light, found.contradictions, found.gaps) == ("green", (), ())
    assert all(one.caught_by for one in found.planted)
    assert len(found.planted) >= 4
    assert found.spent.share <= 1
    assert violations(json.loads(record_bytes(found)), schema(), schema()) == []


def test_the_schema_refuses_what_is_no_record(tmp_path):
    told = json.loads(record_bytes(audit_release(released(tmp_path), quick=True)))
    for change in ({"light": "blue"}, {"evidence": [{}]}, {"more": 1}, {"chance": {"false_alarm": 2}}):
        assert violations(told | change, schema(), schema()) != []


def test_persons_are_audited_with_all_their_rows(tmp_path):
    found = audit_release(released(tmp_path, people=np.arange(200) // 4), quick=True)
    assert found.light == "green"
    assert found.spent.share > 0.9


def test_an_audit_with_the_same_seed_gives_the_same_record_but_for_times(tmp_path):
    path = released(tmp_path, NoisyGD(steps=3))
    first, second = (audit_release(path, quick=True, seed=4) for _ in range(2))
    assert [replace(one, seconds=0) for one in first.findings] == [
        replace(one, seconds=0) for one in second.findings
    ]


def test_what_cannot_be_tried_is_said_and_is_not_green(tmp_path):
    tuning = PrivateTuning(candidates=(MeanPrototypes(), NoisyGD(steps=2)), mean_trials=3.0)
    found = audit_release(released(tmp_path, tuning), quick=True)
    assert found.not_replayed
    assert found.light == "amber"
    assert found.findings == ()


def test_a_release_whose_noise_came_from_a_seed_is_red(tmp_path):
    data = PrivateEmbeddings(*rows(), classes=CLASSES, name="samples")
    budget = Budget(epsilon=1.0, delta=1e-5)
    model = MeanPrototypes().fit(data, budget=budget, ledger=Ledger.in_memory(), noise=SeededNoise(1))
    path = model.save(tmp_path / "model", unsafe_for_publication=True)
    assert audit_release(path, quick=True).light == "red"


def test_the_ledger_is_part_of_the_audit_and_coins_are_compared(tmp_path):
    ledger = Ledger(tmp_path / "ledger.sqlite")
    ledger.set_budget("samples", Budget(epsilon=2.0, delta=1e-5), note="agreed in the board")
    found = audit_release(released(tmp_path, ledger=ledger), ledger=ledger, quick=True)
    assert found.light == "green"
    assert found.book["coins"] == found.model.witnesses.digest
    notes = [one.get("note") for one in found.book["entries"]]
    assert notes[0] in audit_document(found).html()
    assert len(notes) == 2


def scaled(factor):
    draw = SecureNoise.discrete_gaussian
    return lambda self, scale, shape: draw(self, factor * scale, shape)


def short_tails(scale, count, stream=None, draw=integer_noise.discrete_gaussian):
    """Draws beyond three standard deviations are drawn again, once."""
    drawn = draw(scale, count, stream)
    return np.where(np.abs(drawn) > 3 * scale, draw(scale, count, stream), drawn)


def unit_norm_forgotten(self, given, norm):
    return np.rint(3 * np.asarray(given) * norm).astype(np.int64)


def one_more(self, query, *data, release=RoundsLeft.release):
    self.asked = 0  # never used up
    release(self, query, *data)
    self.asked = 0
    return release(self, query, *data)


BROKEN = {
    "3% less noise": (SecureNoise, "discrete_gaussian", scaled(0.97), MeanPrototypes()),
    "10% less noise": (SecureNoise, "discrete_gaussian", scaled(0.9), MeanPrototypes()),
    "half of the noise": (SecureNoise, "discrete_gaussian", scaled(0.5), NoisyGD(steps=3)),
    "tails cut at three deviations": (integer_noise, "discrete_gaussian", short_tails, MeanPrototypes()),
    "rows of any length": (FittedUnitNorm, "lattice", unit_norm_forgotten, MeanPrototypes()),
    "a round that nobody paid for": (RoundsLeft, "release", one_more, NoisyGD(steps=3)),
    "choices with half of their noise": (
        Selection,
        "scale",
        property(lambda self, wide=Selection.scale.fget: wide(self) / 2),
        PublicPrototypes(),
    ),
}


@pytest.mark.parametrize("fault", BROKEN)
def test_a_fault_in_the_code_turns_the_audit_red(fault, tmp_path, monkeypatch):
    owner, name, broken, method = BROKEN[fault]
    path = released(tmp_path, method)
    assert audit_release(path).light == "green"
    monkeypatch.setattr(owner, name, broken)
    assert audit_release(path).light == "red"


def test_a_model_of_what_is_in_the_rows_turns_the_audit_red(tmp_path, monkeypatch):
    path, run = released(tmp_path), MeanPrototypes.run

    def with_mean(self, task):
        outcome = run(self, task)
        head = replace(outcome.head, prototypes=outcome.head.prototypes + task.private.rows[0, 0])
        return replace(outcome, head=head)

    monkeypatch.setattr(MeanPrototypes, "run", with_mean)
    assert len(audit_release(path, quick=True).contradictions) == 1


def test_files_that_were_changed_turn_the_audit_red(tmp_path):
    path = released(tmp_path)
    card = path / "README.md"
    card.write_text(card.read_text() + " ")
    with pytest.raises(Exception, match="README"):
        audit_release(path, quick=True)


def test_by_chance_a_sound_audit_is_red_at_most_once_in_a_thousand():
    rng = np.random.default_rng(0)
    draws = rng.normal(size=(300, 4096))
    red = sum(any(one.verdict == "refuted" for one in judge(noise_tests("", own))) for own in draws)
    assert red <= 3  # of 300, where 0.3 are expected


def test_permute_and_flip_has_the_law_of_exponential_noise():
    rng, scores = np.random.default_rng(0), np.array([0.0, 0.4, 1.3])
    best = (scores + rng.exponential(size=(200_000, 3))).argmax(axis=1)
    assert np.bincount(best) / 200_000 == pytest.approx(choice_law(scores, flips=True), abs=0.005)


def test_epsilon_by_other_code_is_that_of_the_accountant(tmp_path):
    from dptransfer.release import read_release

    for name in ("mean", "dpsgd"):
        model = read_release(released(tmp_path / name, METHODS[name]()))
        again, _ = second_epsilon(model)
        assert again == pytest.approx(model.guarantee.epsilon, rel=2e-3)


def test_the_page_has_no_script_and_every_section(tmp_path):
    page = audit_document(audit_release(released(tmp_path), quick=True)).html()
    assert "<script" not in page
    for title in ("Result", "Ladder of evidence", "Planted faults", "Crosswalks", "Sign-off"):
        assert f"<h2>{title}</h2>" in page
