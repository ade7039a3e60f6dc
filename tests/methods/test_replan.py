"""A release whose steps are not its method's fails; so each forgery here starts from one that passes."""

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pytest

import dptransfer as dpt
from contracts.test_method_suite import small
from dptransfer.accounting import guarantee_of
from dptransfer.methods import METHODS, EmbeddingMethod, replan
from dptransfer.methods.method import configuration_of
from dptransfer.methods.replan import check_words
from dptransfer.privacy import Budget, Relation, Unit
from dptransfer.release.verify import NOT_SHOWN, verify_files
from dptransfer.testing.sample_data import (
    CLASSES,
    POOL,
    ROWS,
    budget_for,
    fit_sample,
    ordinary_rows,
    relations_of,
)

from .samples import check_record, check_steps

TUNED = dpt.methods.PrivateTuning(candidates=(dpt.methods.NoisyGD(steps=5), dpt.methods.MeanPrototypes()))
VARIANTS = (
    dpt.methods.MeanPrototypes(
        features=dpt.features.PublicMap(axes=50)
    ),  # more axes than the pool or the rows have
    dpt.methods.MeanEstimation(features=dpt.features.UnitNorm(pool=2)),
    dpt.methods.NoisyGD(noise_multiplier=10.0),  # as many steps as fit
    dpt.methods.DPSGDProbe(steps=20, noise_multiplier=8.0),  # less than the budget
    dpt.methods.AdaMix(axes=2),
    dpt.methods.PublicPrototypes(mechanism="laplace"),
    TUNED,
)
METHODS_HERE = [small(name) for name in METHODS if name not in ("auto", "language")]


def forged(model, **changes):
    """The model with other events, and the guarantee that follows from them."""
    events = tuple(replace(event, **changes) for event in model.events)
    return with_events(model, events)


def with_events(model, events):
    promise = model.guarantee
    guarantee = guarantee_of(events, promise.delta, promise.assumptions, relation=promise.relation)
    return replace(model, events=events, guarantee=guarantee)


def verdict(model):
    """Whether the steps are the method's, and whether that had to be so."""
    check = check_steps(model)
    return check.passed, check.required


FAILS, UNCHECKED = (False, True), (False, False)


def recorded(model, **changes):
    return replace(model, provenance=replace(model.provenance, **changes))


@pytest.fixture(scope="module")
def model():
    return dpt.methods.MeanPrototypes().fit(ROWS.private(), budget=BUDGET, ledger=dpt.Ledger.in_memory())


BUDGET = Budget(epsilon=1.0, delta=1e-5)


@pytest.mark.parametrize("method", [*METHODS_HERE, *VARIANTS], ids=lambda method: method.name)
def test_what_a_method_releases_is_what_it_plans_again(method):
    # Searching a tuned plan takes a while, and its steps' sensitivities are those of the others.
    for relation in relations_of(method)[: 1 if method is TUNED else None]:
        made = fit_sample(method, budget=budget_for(method, relation))
        for check in (check_steps(made), check_record(made), check_words(made)):
            assert check.passed, check.detail
            assert check.required


@pytest.mark.parametrize(
    ("method", "amount"),
    [
        (dpt.methods.PublicPrototypes(), {"epsilon": 1.0}),
        (dpt.methods.TopKPrototypes(), {"rho": 0.1, "delta": 1e-5}),
        (dpt.methods.MeanPrototypes(), {"mu": 0.1, "delta": 1e-5}),
        (dpt.methods.MeanPrototypes(), {"mu": 1e-4, "delta": 1e-3}),  # whose epsilon at that delta is 0
        (dpt.methods.DPSGDProbe(steps=20), {"rho": 0.1, "delta": 1e-5}),
        (dpt.methods.LeastSquares(), {"epsilon": 10.0, "delta": 1e-5}),
        (dpt.methods.OnlyPublic(), {"epsilon": 1.0}),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_a_budget_in_any_currency_is_planned_again(method, amount):
    check = check_steps(fit_sample(method, budget=Budget(**amount)))
    assert check.passed, check.detail


def test_the_auto_methods_release_is_that_of_the_method_it_took():
    made = fit_sample(dpt.Auto())
    assert made.provenance.method != "auto"
    assert check_steps(made).passed


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"sensitivity": 0.001}, "sensitivity 0.001, where the method has 1.0"),
        ({"label": "nothing of note"}, "label"),
        ({"numeric_epsilon": 0.0}, "numeric epsilon"),
        ({"times": 2}, "times"),
    ],
)
def test_an_event_that_is_not_the_methods_fails(model, change, said, tmp_path):
    wrong = forged(model, **change)
    check = check_steps(wrong)
    assert (check.passed, check.required) == (False, True)
    assert said in check.detail
    path = wrong.save(tmp_path / "forged")
    assert verify_files(path).failures == ()  # files and arithmetic hold
    found = dpt.verify(path)
    assert not found.ok
    assert [one.name for one in found.checks if not one.passed] == ["steps"]


def test_sampled_steps_of_another_rate_or_number_fail():
    made = fit_sample(dpt.methods.DPSGDProbe(steps=20))
    for change in ({"sampling_rate": 0.01}, {"times": 10}, {"sensitivity": 0.5}, {"numeric_epsilon": 0.0}):
        assert not check_steps(forged(made, **change)).passed


def test_a_numeric_error_that_is_not_the_methods_fails_though_it_is_larger_and_paid_for():
    for made in (fit_sample(dpt.methods.DPSGDProbe(steps=20)), fit_sample(dpt.methods.NoisyGD(steps=5))):
        other = forged(made, numeric_delta=1e-40)
        assert other.guarantee.epsilon >= made.guarantee.epsilon
        assert not check_steps(other).passed


def test_a_selection_that_claims_a_bounded_range_it_has_not_fails():
    made = fit_sample(dpt.methods.PublicPrototypes(mechanism="laplace"))
    assert not check_steps(forged(made, bounded_range=True)).passed
    assert not check_steps(forged(made, mechanism="exponential")).passed


def test_a_step_that_is_left_out_or_put_in_fails():
    made = fit_sample(dpt.methods.LeastSquares())
    for events in (made.events[:-1], (*made.events, made.events[0]), made.events[::-1]):
        assert not check_steps(with_events(made, events)).passed


def test_another_kind_of_step_fails(model):
    chosen = fit_sample(dpt.methods.PublicPrototypes())
    assert "kind" in check_steps(with_events(model, chosen.events)).detail


def test_a_tuned_release_is_compared_trial_by_trial():
    made = fit_sample(TUNED)
    (search,) = made.events
    (fit, score), other = search.candidates
    for candidates in (
        ((replace(fit, sensitivity=0.1), score), other),
        ((fit, replace(score, sensitivity=0.1)), other),
        ((fit,), other),
        ((fit, score),),
    ):
        assert verdict(with_events(made, (replace(search, candidates=candidates),))) == FAILS
    assert not check_steps(with_events(made, (replace(search, mean_trials=2.0),))).passed


def test_settings_facts_and_assumptions_are_those_of_the_plan():
    relation = Relation.REPLACE_ONE
    made = fit_sample(dpt.methods.NoisyGD(steps=5), budget=Budget(epsilon=1.0, delta=1e-5, relation=relation))
    other_steps = {**made.provenance.configuration, "steps": 6}
    assert "times 5" in check_steps(recorded(made, configuration=other_steps)).detail
    assert not check_steps(replace(made, facts=replace(made.facts, shape=(60,)))).passed
    assert not check_steps(recorded(made, method="mean")).passed
    coinpress = fit_sample(dpt.methods.CoinPressPrototypes())
    bare = replace(coinpress.guarantee, assumptions=())
    assert "assumptions" in check_steps(replace(coinpress, guarantee=bare)).detail


def test_a_configuration_that_cannot_be_read_fails(model):
    check = check_steps(recorded(model, configuration={"type": "Popen", "args": "ls"}))
    assert (check.passed, check.required) == (False, True)
    assert "Popen" in check.detail
    pooled = fit_sample(dpt.methods.MeanPrototypes(features=dpt.features.PublicMap(axes=3)))
    for rows in (0, -1, "many", 2.5, True):
        assert not check_steps(recorded(pooled, public={**pooled.provenance.public, "rows": rows})).passed


def test_no_room_is_made_for_rows_that_no_fit_takes():
    made = fit_sample(dpt.methods.NoisyGD(steps=5))
    wide = replace(made, facts=replace(made.facts, shape=(10**12,)))
    assert "at most 16384 dimensions" in check_steps(wide).detail


def test_a_release_made_on_a_gpu_is_checked_without_one(model):
    on_gpu = {**model.provenance.configuration, "device": "cuda"}
    assert check_steps(recorded(model, configuration=on_gpu)).passed


@pytest.mark.parametrize("version", ["0.0.1", "99.0", "unknown"])
def test_no_version_excuses_a_sensitivity_below_the_methods(model, version, tmp_path):
    """Otherwise a forger would name another version; nothing that a release says of itself may verify it."""
    low = recorded(forged(model, sensitivity=0.5), versions={"dptransfer": version})
    assert verdict(low) == FAILS
    hidden = forged(low, label="something else")  # not the method's step by its words, so nothing is known
    assert verdict(hidden) == UNCHECKED
    for wrong, outcome in ((low, "failed"), (hidden, "not all checked")):
        assert dpt.verify(wrong.save(tmp_path / outcome)).outcome == outcome


def test_no_version_excuses_a_trial_with_a_sensitivity_below_the_methods():
    made = recorded(fit_sample(TUNED), versions={"dptransfer": "0.0.1"})
    (search,) = made.events
    (fit, score), other = search.candidates
    low = replace(search, candidates=((fit, replace(score, sensitivity=score.sensitivity / 2)), other))
    assert check_steps(with_events(made, (low,))).required


VERSIONS = ("0.0.1", dpt.__version__)


@pytest.mark.parametrize("version", VERSIONS)
def test_no_version_makes_a_promise_to_persons_of_steps_about_examples(version, tmp_path):
    made = fit_sample(METHODS["coinpress"]())  # which bounds what an example contributes, and no person
    wrong = recorded(
        forged(made, unit=Unit.PERSON), versions={**made.provenance.versions, "dptransfer": version}
    )
    wrong = replace(wrong, facts=replace(made.facts, unit=Unit.PERSON))
    assert wrong.guarantee.unit is Unit.PERSON
    assert "steps" in verified(wrong, tmp_path / "persons").failures
    hidden = forged(wrong, label="something else")
    assert "steps" in verified(hidden, tmp_path / "hidden").failures


def test_nor_of_a_search_among_methods_of_which_one_is_about_examples():
    among = METHODS["coinpress"](), dpt.methods.MeanPrototypes()
    made = recorded(fit_sample(dpt.methods.PrivateTuning(candidates=among)), versions={"dptransfer": "0.0.1"})
    assert check_steps(replace(made, facts=replace(made.facts, unit=Unit.PERSON))).required


@pytest.mark.parametrize("version", VERSIONS)
def test_steps_for_persons_are_planned_again_with_the_bound_on_record(version, tmp_path):
    x, y = ordinary_rows()
    data = dpt.PrivateEmbeddings(x, y, classes=CLASSES, people=np.arange(len(x)) // 3, person_bound=2.0)
    made = dpt.methods.MeanPrototypes().fit(data, budget=BUDGET, ledger=dpt.Ledger.in_memory())
    made = recorded(made, versions={**made.provenance.versions, "dptransfer": version})
    assert (made.guarantee.unit, made.facts.person_bound) == (Unit.PERSON, 2.0)
    assert check_steps(made).passed
    # The steps are planned for the bound on record: steps of a smaller one are not those of the method.
    for wrong in (replace(made, facts=replace(made.facts, person_bound=4.0)), forged(made, sensitivity=1.0)):
        assert check_steps(wrong).required
        assert "sensitivity" in check_steps(wrong).detail
        assert "steps" in verified(wrong, tmp_path / f"{wrong.facts.person_bound}").failures
    rows = replace(made.facts, unit=Unit.ROW, person_bound=1.0)
    with pytest.raises(dpt.errors.ReleaseError, match="another unit"):
        replace(made, facts=rows).save(tmp_path / "mixed")


def verified(model, path):
    """What verification says of a release, whatever the noise was."""
    return dpt.verify(recorded(model, seeded=False).save(path))


@pytest.mark.parametrize(
    "words", [{"summary": "Nothing about anybody was used."}, {"reference": "The Holy Bible."}]
)
def test_a_release_cannot_describe_a_method_otherwise_than_it_does(model, words, tmp_path):
    assert check_words(model).passed
    assert not check_words(recorded(model, summary="", reference="")).passed
    assert dpt.verify(recorded(model, **words).save(tmp_path / "forged")).failures == ("description",)
    older = recorded(model, **words, versions={"dptransfer": "0.0.1"})
    assert (check_words(older).passed, check_words(older).required) == (False, False)
    theirs = recorded(model, method="plugged", **words)
    assert (check_words(theirs).passed, check_words(theirs).required) == (False, False)
    assert check_words(fit_sample(TUNED)).passed


def test_another_versions_steps_are_a_note_and_not_a_verdict(model):
    old = recorded(forged(model, sensitivity=2.0), versions={"dptransfer": "0.0.1"})
    check = check_steps(old)
    assert (check.passed, check.required) == (False, False)
    assert check.detail.startswith("not checked: written by dptransfer 0.0.1")
    assert check_steps(recorded(model, versions={"dptransfer": "0.0.1"})).passed


@dataclass(frozen=True)
class Plugged(EmbeddingMethod):
    """A method of somebody else's."""

    name: ClassVar[str] = "plugged"

    def plan(self, facts, budget, public=None):
        return replace(dpt.methods.MeanPrototypes().plan(facts, budget, public), method=self)

    def run(self, task):
        return dpt.methods.MeanPrototypes().run(task)


def test_a_method_that_is_not_ours_is_not_checked_and_the_words_say_so(tmp_path):
    made = Plugged().fit(ROWS.private(), budget=BUDGET, ledger=dpt.Ledger.in_memory())
    found = dpt.verify(made.save(tmp_path / "plugged"))
    (check,) = [one for one in found.checks if one.name == "steps"]
    assert (check.passed, check.required) == (False, False)
    assert check.detail.startswith("not checked: 'plugged' is no method of this library")
    assert (found.failures, found.outcome, found.ok) == ((), "not all checked", False)


def test_a_plan_that_breaks_down_fails_the_check_and_not_the_reader(model, monkeypatch):
    for error in (AssertionError, RuntimeError, NameError):
        monkeypatch.setattr(
            dpt.methods.MeanPrototypes, "plan", lambda *_, error=error: (_ for _ in ()).throw(error("no"))
        )
        check = check_steps(model)
        assert (check.passed, check.required) == (False, True)
        assert "cannot plan" in check.detail


def test_no_word_of_a_release_is_imported(model, tmp_path, monkeypatch):
    (tmp_path / "trap.py").write_text("raise SystemExit('imported')")
    monkeypatch.syspath_prepend(tmp_path)
    starts = dpt.methods.NoisyGD(steps=5, start=dpt.methods.FromNames(tower="trap:X"))
    assert check_steps(
        recorded(fit_sample(dpt.methods.NoisyGD(steps=5)), configuration=configuration_of(starts))
    ).passed
    for name, type_ in (("trap:X", "MeanPrototypes"), ("mean", "trap:X"), ("private-tuning", "trap:X")):
        settings = {**model.provenance.configuration, "type": type_}
        assert not check_steps(recorded(model, method=name, configuration=settings)).passed
    with pytest.raises(SystemExit):
        METHODS.find("trap:X")  # a person's word is


def test_a_plan_that_looks_at_public_rows_is_not_checked_and_the_words_say_so():
    rng = np.random.default_rng(0)
    many = dpt.PublicEmbeddings(rng.normal(size=(250, 6))).with_shots(POOL.shots)
    method = dpt.methods.PrivateTuning(
        candidates=(dpt.methods.MeanPrototypes(), dpt.Auto(candidates=(dpt.methods.MeanPrototypes(),)))
    )
    made = method.fit(ROWS.private(), many, budget=BUDGET, ledger=dpt.Ledger.in_memory())
    assert check_steps(made).passed  # one candidate: nothing to try, so no row is looked at
    several = dpt.Auto(candidates=(dpt.methods.MeanPrototypes(), dpt.methods.MeanEstimation()))
    tried = dpt.methods.PrivateTuning(candidates=(dpt.methods.MeanPrototypes(), several))
    check = check_steps(recorded(made, configuration=configuration_of(tried)))
    assert (check.passed, check.required) == (False, False)
    assert "looks at the public rows" in check.detail


def test_a_search_among_methods_that_are_not_installed_is_not_checked():
    @dataclass(frozen=True)
    class Elsewhere(dpt.methods.MeanPrototypes):
        """A method of a package that nobody installed."""

        name: ClassVar[str] = "elsewhere"

    made = fit_sample(dpt.methods.PrivateTuning(candidates=(Elsewhere(), dpt.methods.MeanPrototypes())))
    check = check_steps(made)
    assert (check.passed, check.required) == (False, False)
    assert "'Elsewhere'" in check.detail


def test_a_whole_release_is_verified_and_what_cannot_be_shown_is_said(model, tmp_path):
    found = dpt.verify(model.save(tmp_path / "good"))
    assert found.ok
    names = [check.name for check in found.checks]
    assert names.index("steps") == names.index("guarantee") + 1
    assert found.to_dict()["not_shown"] == found.not_shown == NOT_SHOWN
    assert "really drawn" in NOT_SHOWN


def test_a_release_that_cannot_be_read_has_no_steps_to_plan(model, tmp_path):
    path = model.save(tmp_path / "broken")
    weights = path / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1])
    found = dpt.verify(path)
    assert not found.ok
    assert "steps" not in [check.name for check in found.checks]
    (path / "release.json").write_text("{}")
    assert not dpt.verify(path).ok


def test_a_note_may_differ_by_one_in_the_last_digit_shown():
    assert replan._same("epsilon 0.561 and not 1", "epsilon 0.56 and not 1")
    assert not replan._same("epsilon 0.563 and not 1", "epsilon 0.56 and not 1")
    assert not replan._same("5 trials", "6 trials")
    assert not replan._same("delta 2e-5", "delta 3e-5")
