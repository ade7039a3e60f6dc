import json

import numpy as np
import pytest

from dptransfer import Budget, PublicEmbeddings, Relation
from dptransfer.data import Facts
from dptransfer.errors import ArgumentError, BudgetError, DataError, DPTransferError, Incompatible
from dptransfer.federation import OwnerKey, plan_study, read_study
from dptransfer.federation.study import Study
from dptransfer.methods import TransferPATE
from dptransfer.privacy import Unit, event_to_dict
from federation.owners import BUDGET, CLASSES, WIDTH, Owners, pool

PASSING = TransferPATE(teachers=5, queries=9, threshold=2.0)  # a test of the favourite is no sum
KEYS = {name: OwnerKey(bytes([place]) * 32).public for place, name in enumerate("abcde")}
FACTS = Facts(CLASSES, (WIDTH,))


def planned(**given):
    terms = {"name": "trial", "owners": KEYS, "facts": FACTS, "budget": BUDGET, "method": "mean"} | given
    return plan_study(**terms)


def test_each_owner_is_charged_what_a_fit_alone_would_be():
    from dptransfer.methods import MeanPrototypes

    assert planned().plan.events == MeanPrototypes().plan(FACTS, BUDGET).events


@pytest.mark.parametrize(
    ("ways", "factor"),
    [
        ({}, 5**0.5),
        ({"trust": "secure-sum"}, (5 / 4) ** 0.5),
        ({"trust": "secure-sum", "colluders": 0}, 1.0),
        ({"trust": "secure-sum", "colluders": 4}, 5**0.5),
    ],
)
@pytest.mark.parametrize("method", ["mean", "least-squares", "noisy-gd"])
def test_the_method_is_told_the_noise_of_the_total(ways, factor, method):
    for relation in Relation:
        budget = Budget(epsilon=1.0, delta=1e-5, relation=relation)
        study = planned(method=method, budget=budget, **ways)
        for own, joint in zip(study.plan.events, study.joint_plan.events, strict=True):
            assert joint.noise_multiplier == pytest.approx(factor * own.noise_multiplier, rel=1e-9)
            assert joint.noise_multiplier >= factor * own.noise_multiplier * (1 - 1e-12)


@pytest.mark.parametrize("method", ["public", "dpsgd", "top-k", PASSING, "auto"])
def test_steps_that_are_no_sums_are_refused(method):
    if method == "auto":  # chooses one that is
        assert planned(method=method, public=pool()).plan.method.name == "public-prior"
        return
    with pytest.raises(ArgumentError, match="add up"):
        planned(method=method, public=pool())


def test_methods_on_pictures_are_refused():
    with pytest.raises(DPTransferError):
        planned(method="film", public=None)


@pytest.mark.parametrize(
    "given",
    [
        {"owners": {"a": KEYS["a"]}},
        {"owners": {"a": KEYS["a"], "b": KEYS["a"]}},
        {"owners": {"a": KEYS["a"], "b": "00"}},
        {"owners": {"a": KEYS["a"], "../b": KEYS["b"]}},
        {"owners": {f"o{n}": f"{n:0128x}" for n in range(65)}},
        {"owners": {"a": KEYS["a"], "b": KEYS["b"][:64] + 64 * "0"}},
        {"name": "a b"},
        {"trust": "me"},
        {"trust": "secure-sum", "colluders": 5},
        {"trust": "secure-sum", "colluders": -1},
    ],
)
def test_terms_that_cannot_be_are_refused(given):
    with pytest.raises(ArgumentError):
        planned(**given)


def test_a_study_comes_back_from_its_file_with_its_digest(tmp_path):
    study = planned(method="public-prior", public=pool(), trust="secure-sum")
    study.write(tmp_path / "s.study")
    found = read_study(tmp_path / "s.study")
    assert found.digest == study.digest
    assert found.features.identity == study.features.identity
    with pytest.raises(DataError):
        study.write(tmp_path / "s.study")


def changed(study, path, **fields):
    Study({**study.record, **fields}, study.features, study.names).write(path)
    return path


def test_a_study_that_states_less_noise_than_its_method_plans_is_refused(tmp_path):
    study = planned()
    events = json.loads(json.dumps(study.record["events"]))
    events[0]["noise_multiplier"] /= 2
    with pytest.raises(DataError, match="other steps"):
        read_study(changed(study, tmp_path / "s.study", events=events))


@pytest.mark.parametrize(
    "fields",
    [
        {"format": 2},
        {"method": {"type": "os.system"}},
        {"facts": {}},
        {"owners": {}},
        {"epsilon": None},
        {"colluders": 7},
        {"public": {"rows": 3, "names": {"rows": 3, "fingerprint": "00"}}},
        {"relation": "nothing"},
    ],
)
def test_a_study_that_was_changed_is_refused(tmp_path, fields):
    with pytest.raises(DataError):
        read_study(changed(planned(), tmp_path / "s.study", **fields))


@pytest.mark.parametrize("promise", [{"epsilon": 1e4}, {"delta": 0.3}], ids=str)
def test_a_budget_that_promises_nothing_is_refused_by_whoever_plans_or_reads_it(tmp_path, promise):
    amounts = {"epsilon": BUDGET.epsilon, "delta": BUDGET.delta} | promise
    with pytest.raises(BudgetError):
        planned(budget=Budget(**amounts))
    study = planned()
    plan = Study(study.record | promise, study.features).plan
    events = [event_to_dict(one) for one in plan.events]
    with pytest.raises(DataError, match=next(iter(promise))):
        read_study(changed(study, tmp_path / "s.study", events=events, **promise))


def test_a_plan_that_understates_its_steps_or_unit_is_refused(monkeypatch):
    """As by a fit, which does not rely on the method either."""
    from dptransfer.methods import MeanPrototypes

    plan = MeanPrototypes.plan
    for facts in (Facts(CLASSES, (WIDTH,), unit=Unit.PERSON), FACTS):
        other, budget = (FACTS, BUDGET) if facts.unit is Unit.PERSON else (FACTS, Budget(2.5, 1e-5))
        monkeypatch.setattr(MeanPrototypes, "plan", lambda self, *_, o=other, b=budget: plan(self, o, b))
        with pytest.raises(DPTransferError, match="A plan must"):
            planned(facts=facts)


def test_noise_too_narrow_for_a_secure_sum_is_refused_by_planner_and_owner(tmp_path, monkeypatch):
    planned(trust="secure-sum").write(tmp_path / "s.study")
    monkeypatch.setattr("dptransfer.federation.secure_sum.FEWEST_STEPS", 1e12)
    with pytest.raises(ArgumentError, match="too small"):
        planned(trust="secure-sum")
    with pytest.raises(DataError, match="too small"):
        read_study(tmp_path / "s.study")
    assert planned().plan.events  # by files accuracy alone rests on it


def test_owners_use_the_map_of_the_study_and_not_one_of_their_own_machine(tmp_path):
    """Axes may differ in sign from machine to machine, and sums along them would cancel."""
    study = planned(method="public-prior", public=pool())
    features = study.features
    flipped = type(features)(
        features.root, features.mean, -features.matrix, features.pool, features.whitening
    )
    other = Study(study.record, flipped)
    assert other.prepare(pool()).features is flipped


@pytest.mark.parametrize("axes", [3, 128])
def test_a_map_that_is_not_the_method_s_is_refused(axes):
    study = planned(method="public-prior", public=pool(), trust="secure-sum")
    other = study.features.first(axes) if axes == 3 else planned(method="mean").features
    with pytest.raises(Incompatible, match="feature map"):
        Study(study.record, other).prepare(pool())


def test_a_pool_must_be_that_of_the_study():
    study = planned(method="public-prior", public=pool())
    with pytest.raises(ArgumentError, match="public rows"):
        study.prepare(None)
    with pytest.raises(Incompatible, match="digest"):
        study.prepare(pool(61))
    named = PublicEmbeddings(pool().rows, name="elsewhere")
    assert study.prepare(named).maps.axes is study.features


def test_class_names_come_with_the_study_for_owners_who_cannot_read_them(tmp_path):
    names = np.random.default_rng(3).normal(size=(3, WIDTH)).astype(np.float32)
    study = planned(method="public-prior", public=pool().with_names(names))
    study.write(tmp_path / "s.study")
    found = read_study(tmp_path / "s.study").prepare(pool())
    assert np.array_equal(found.public.names, names)
    assert found.maps.start is not None


def test_persons_are_protected_where_the_study_says_so(tmp_path):
    owners = Owners(tmp_path, people=True)
    assert owners.study.plan.guarantee.unit.value == "person"
