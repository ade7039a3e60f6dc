"""What a release lists beside its steps follows from them; each forgery here starts from one that passes."""

from dataclasses import replace

import numpy as np
import pytest

import dptransfer as dpt
from dptransfer.data.vocabulary import Vocabulary
from dptransfer.exact.feature_map import FittedSideBySide, FittedUnitNorm
from dptransfer.exact.public_map import PublicMap
from dptransfer.exact.vocabulary_map import FittedVocabularyMap, VocabularyMap
from dptransfer.ledger import Ledger
from dptransfer.methods import METHODS
from dptransfer.methods.replan import _same, changes_of_encoder, verify_release
from dptransfer.privacy import Budget, Relation
from dptransfer.release import Verification
from dptransfer.release.verify import RECORD, Check
from dptransfer.testing.sample_data import POOL, ROWS, fit_sample, ordinary_rows
from release.models import rewrite

from .samples import check_record, check_steps

BUDGET = Budget(epsilon=1.0, delta=1e-5)
VOTES = dpt.methods.TransferPATE(teachers=5, queries=8)
TESTED = dpt.methods.TransferPATE(teachers=5, queries=8, threshold=2.0, answers=6)


def recorded(model, **changes):
    return replace(model, provenance=replace(model.provenance, **changes))


def fails(model, word):
    check = check_record(model)
    assert (check.name, check.passed, check.required) == (RECORD, False, True)
    assert word in check.detail
    return True


def listing(rows, model):
    """Lists of these rows by class, in the form of a release."""
    return {"rows": dict(zip(map(str, model.classes), rows, strict=True))}


@pytest.fixture(scope="module")
def votes():
    return fit_sample(VOTES)


@pytest.fixture(scope="module")
def tested():
    model = fit_sample(TESTED)
    assert 0 < sum(map(len, model.provenance.answers["rows"].values())) < 6
    return model


@pytest.fixture(scope="module")
def chosen():
    return fit_sample(METHODS["top-k"]())


def test_answers_that_were_not_paid_for_fail(votes, tmp_path):
    """A guarantee for 2 answers, beside the 8 that were given."""
    paid = recorded(fit_sample(replace(VOTES, queries=2)), seeded=False)
    forged = recorded(paid, answers=votes.provenance.answers)
    assert check_steps(forged).passed
    assert fails(forged, "8 answers are listed, and 2 were paid for")
    assert verify_release(forged.save(tmp_path / "forged")).failures == ("record",)
    assert fails(recorded(paid, notes=votes.provenance.notes), "notes")


def test_as_many_answers_as_questions_are_listed_and_each_once(votes):
    assert check_record(votes).passed
    rows = list(votes.provenance.answers["rows"].values())
    longest = max(range(3), key=lambda place: len(rows[place]))
    fewer = [own[:-1] if place == longest else own for place, own in enumerate(rows)]
    assert fails(recorded(votes, answers=listing(fewer, votes)), "7 answers")
    first = rows[longest][0]
    twice = [own if place == longest else [*own, first] for place, own in enumerate(fewer)]
    other = (longest + 1) % 3
    twice = [[*own, first] if place == other else own for place, own in enumerate(fewer)]
    assert fails(recorded(votes, answers=listing(twice, votes)), "8 answers")
    assert fails(recorded(votes, answers=None), "none are listed")


def test_answers_are_to_the_questions_that_are_asked():
    asked = set(VOTES.questions(25).tolist())
    model = fit_sample(VOTES)
    rows = [list(own) for own in model.provenance.answers["rows"].values()]
    place = next(place for place in range(3) if rows[place])
    rows[place][0] = next(row for row in range(25) if row not in asked)
    assert fails(recorded(model, answers=listing(rows, model)), "not asked")


def test_where_there_is_a_test_no_more_are_listed_than_were_paid_for_and_the_note_has_their_number(tested):
    assert check_record(tested).passed
    rows = [list(own) for own in tested.provenance.answers["rows"].values()]
    place = next(place for place in range(3) if rows[place])
    rows[place] = rows[place][:-1]
    assert fails(recorded(tested, answers=listing(rows, tested)), "notes")
    questions = TESTED.questions(25).tolist()
    most = [questions[:3], questions[3:6], []]
    note = tested.provenance.notes[-1]
    paid = recorded(
        tested, answers=listing(most, tested), notes=(*tested.provenance.notes[:-1], f"6{note[1:]}")
    )
    assert check_record(paid).passed
    more = [questions[:3], questions[3:7], []]
    over = recorded(
        tested, answers=listing(more, tested), notes=(*tested.provenance.notes[:-1], f"7{note[1:]}")
    )
    assert fails(over, "7 answers are listed, and 6 were paid for")


WRONG_LISTS = {
    "no class": lambda rows: rows.pop("a"),
    "another class": lambda rows: rows.update(z=rows.pop("a")),
    "another order": lambda rows: rows.update(a=rows.pop("a")),
    "no number": lambda rows: rows["a"].__setitem__(0, "1"),
    "true": lambda rows: rows["a"].__setitem__(0, True),
    "beyond the pool": lambda rows: rows["a"].__setitem__(0, 25),
    "below zero": lambda rows: rows["a"].__setitem__(0, -1),
    "twice": lambda rows: rows["a"].__setitem__(0, rows["a"][1]),
}


@pytest.mark.parametrize("wrong", WRONG_LISTS)
def test_a_list_names_public_rows_for_each_class(wrong, chosen):
    told = {"rows": {name: list(own) for name, own in chosen.provenance.prototypes["rows"].items()}}
    assert check_record(recorded(chosen, prototypes=told)).passed
    WRONG_LISTS[wrong](told["rows"])
    assert fails(recorded(chosen, prototypes=told), "no list of public rows")


def test_the_last_public_row_may_be_listed(chosen):
    told = {"rows": {name: [24, 0, 1, 2, 3] for name in chosen.classes}}
    assert check_record(recorded(chosen, prototypes=told)).passed


def test_sources_are_one_for_each_row_and_nothing_else_is_listed(chosen):
    rows = chosen.provenance.prototypes["rows"]
    sources = {name: [f"{row}.png" for row in own] for name, own in rows.items()}
    assert check_record(recorded(chosen, prototypes={"rows": rows, "sources": sources})).passed
    for wrong in (
        None,
        {},
        {**sources, "a": sources["a"][1:]},
        {**sources, "a": [1, 2, 3, 4, 5]},
        {**sources, "z": []},
    ):
        assert fails(recorded(chosen, prototypes={"rows": rows, "sources": wrong}), "no list")
    assert fails(recorded(chosen, prototypes={"rows": rows, "more": {}}), "no list")
    assert fails(recorded(chosen, prototypes={"sources": sources}), "no list")


def test_prototypes_are_as_many_as_are_chosen_and_as_the_head_has(chosen):
    four = listing([own[:4] for own in chosen.provenance.prototypes["rows"].values()], chosen)
    assert fails(recorded(chosen, prototypes=four), "5 prototypes")
    assert fails(recorded(chosen, prototypes=None), "5 prototypes")
    rows = list(chosen.provenance.prototypes["rows"].values())
    more = [[*rows[0], next(row for row in range(25) if row not in rows[0])], *rows[1:]]
    assert fails(recorded(chosen, prototypes=listing(more, chosen)), "5 prototypes")
    fewer = replace(chosen, head=replace(chosen.head, prototypes=chosen.head.prototypes[:, :4]))
    assert fails(fewer, "the head has others")
    one = fit_sample(METHODS["public"]())
    assert check_record(one).passed
    two = listing([[0, 1], [2, 3], [4, 5]], one)
    assert fails(recorded(one, prototypes=two), "1 prototypes")
    assert fails(replace(one, head=fit_sample(METHODS["noisy-gd"](steps=5)).head), "the head has others")


@pytest.mark.parametrize("name", ["prototypes", "answers"])
def test_methods_that_list_nothing_list_nothing(name, votes, chosen):
    plain = fit_sample(METHODS["mean"]())
    for model in (plain, votes, chosen):
        if getattr(model.provenance, name) is None:
            lists = listing([[0], [1], [2]], model)
            assert fails(recorded(model, **{name: lists}), "neither chooses nor asks")


def test_a_trial_that_was_released_may_list_what_its_method_lists():
    made = fit_sample(dpt.methods.PrivateTuning(candidates=(METHODS["top-k"](k=2), METHODS["top-k"](k=3))))
    assert check_record(made).passed
    assert fails(recorded(made, prototypes=listing([[0]] * 3, made)), "prototypes of each class")


def test_notes_are_those_of_the_plan_and_of_the_run(votes):
    note = votes.provenance.notes[0]
    assert (
        check_record(recorded(votes, notes=(note, "Auto chose 'transfer-pate'. It suits."))).passed is False
    )
    assert check_record(recorded(votes, notes=("Auto chose 'transfer-pate'. It suits.", note))).passed
    for notes in (
        (),
        (note, note),
        ("All is well.", note),
        (note, "All is well."),
        (note.replace("5", "6"),),
        ("Auto chose 'transfer-pate'. It suits.",),
        ("Auto chose 'transfer-pate'. It suits.", note, "All is well."),
    ):
        assert fails(recorded(votes, notes=notes), "notes")
    default = fit_sample(METHODS["public-prior"]())
    assert "(1 note)" in check_record(default).detail
    assert fails(recorded(default, notes=(*default.provenance.notes, "All is well.")), "notes")


def test_the_note_on_a_number_of_teachers_that_nobody_chose_is_of_the_plan():
    """It is planned again from a record that has this number, as if it had been given."""
    x, y = ordinary_rows()
    made = fit_sample(dpt.methods.TransferPATE(queries=8), dpt.PrivateEmbeddings(x, y, classes=3))
    assert len(made.provenance.notes) == 2
    assert check_steps(made).passed
    assert check_record(made).passed


def test_numbers_in_notes_agree_but_for_their_last_digit():
    assert _same("noise of 12.34 votes on 8", "noise of 12.35 votes on 8")
    assert not _same("noise of 12.34 votes on 8", "noise of 12.36 votes on 8")
    assert not _same("noise of 1234567", "noise of 1234568")
    assert not _same("noise of 12.34", "noise 12.34")
    assert not _same("noise of 1.5", "noise of -1.5")


@pytest.mark.parametrize("relation", Relation)
def test_a_holdout_is_in_the_notes_as_it_was_drawn(relation):
    budget = replace(BUDGET, relation=relation)
    given = {"budget": budget, "ledger": Ledger.in_memory()}
    made = dpt.methods.MeanPrototypes().fit(ROWS.private(), holdout=0.25, **given)
    assert check_record(made).passed
    (note,) = made.provenance.notes
    for notes in ((), (note.replace("25%", "35%"),), (note, note)):
        assert fails(recorded(made, notes=notes), "note")
    other = replace(made.charged, ledger_head="0" * 64)
    assert fails(replace(made, charged=other), "ledger")
    apart = replace(other, holdout=None)
    assert not check_record(replace(made, charged=apart)).passed


@pytest.mark.parametrize("assumed", [(), ("nothing",)])
def test_a_charged_evaluation_assumes_what_every_one_does(assumed):
    made = dpt.methods.MeanPrototypes().fit(
        ROWS.private(), holdout=0.25, budget=BUDGET, ledger=Ledger.in_memory()
    )
    told = replace(made.charged, guarantee=replace(made.charged.guarantee, assumptions=assumed))
    assert fails(replace(made, charged=told), "assumptions")


def test_a_map_is_of_the_settings_and_the_public_data_on_record():
    made = fit_sample(dpt.methods.MeanPrototypes(features=PublicMap(axes=4, whitening=0.1)))
    assert check_record(made).passed
    for features, word in (
        (replace(made.features, pool="0" * 64), "other public rows"),
        (replace(made.features, whitening=0.2), "settings"),
        (PublicMap(axes=5, whitening=0.1).fit(6, POOL), "settings"),
        (FittedUnitNorm(6), "settings"),
    ):
        assert fails(replace(made, features=features), word)
    assert fails(
        recorded(made, public={**made.provenance.public, "fingerprint": "0" * 64}), "other public rows"
    )
    pooled = fit_sample(dpt.methods.MeanPrototypes(features=dpt.features.UnitNorm(pool=2)))
    assert fails(replace(pooled, features=FittedUnitNorm(6, 3)), "settings")
    assert fails(replace(pooled, features=made.features), "settings")


def test_a_map_is_in_the_words_on_record():
    rng = np.random.default_rng(0)
    words, others = (Vocabulary(("x", "y", "z"), rng.normal(size=(3, 6)), np.zeros(3)) for _ in range(2))
    given = {"budget": BUDGET, "ledger": Ledger.in_memory()}
    method = dpt.methods.MeanPrototypes(features=VocabularyMap())
    made = method.fit(ROWS.private(), POOL.with_vocabulary(words), **given)
    assert check_record(made).passed
    assert fails(recorded(made, public={**made.provenance.public, "vocabulary": others.record}), "words")
    axes = METHODS["public-prior"]().fit(ROWS.private(), POOL.with_vocabulary(words), **given)
    both, odd = (
        replace(axes, features=FittedSideBySide(axes.features, FittedVocabularyMap.of(one)))
        for one in (words, others)
    )
    assert check_record(both).passed
    assert fails(odd, "words")


def test_public_data_are_on_record_where_they_are_needed_and_of_the_same_encoder(chosen):
    encoder = dpt.data.EncoderIdentity("net", "ab" * 32, "rgb 8")
    known = replace(chosen, facts=replace(chosen.facts, encoder=encoder))
    public = chosen.provenance.public
    assert check_record(known).passed
    assert check_record(recorded(known, public={**public, "encoder": encoder.to_dict()})).passed
    other = replace(encoder, weights="cd" * 32).to_dict()
    assert fails(recorded(known, public={**public, "encoder": other}), "another encoder")
    assert not check_record(recorded(chosen, public=None)).passed


def test_a_method_on_rows_is_not_fitted_on_pictures_and_the_other_way_round():
    from contracts.pictures import quick

    rows, pictures = fit_sample(METHODS["mean"]()), fit_sample(quick(METHODS["film"]))
    assert check_record(pictures).passed
    assert not check_record(replace(rows, facts=pictures.facts)).passed
    assert not check_record(replace(pictures, facts=rows.facts)).passed


def test_noise_that_contradicts_the_settings_fails():
    made = fit_sample(dpt.methods.NoisyGD(steps=5, noise_multiplier=10.0))
    assert check_steps(made).passed
    settings = {**made.provenance.configuration, "noise_multiplier": 12.0}
    assert "noise" in check_steps(recorded(made, configuration=settings)).detail


def test_the_record_of_another_version_is_a_note_and_nothing_is_verified(votes, tmp_path):
    older = recorded(
        votes, versions={**votes.provenance.versions, "dptransfer": "0.0.1"}, notes=(), seeded=False
    )
    check = check_record(older)
    assert (check.passed, check.required) == (False, False)
    found = verify_release(older.save(tmp_path / "older"))
    assert (found.failures, found.outcome, found.missing_checks) == ((), "not all checked", (RECORD,))


def test_words_and_cards_under_the_name_of_another_version_are_not_verified(tmp_path):
    made = recorded(fit_sample(METHODS["mean"]()), seeded=False)
    lied = recorded(
        made, summary="Nothing was used.", versions={**made.provenance.versions, "dptransfer": "9.9"}
    )
    found = verify_release(lied.save(tmp_path / "words"))
    assert (found.outcome, found.missing_checks) == ("not all checked", ("description",))
    path = recorded(made, versions={**made.provenance.versions, "numpy": "0.1"}).save(tmp_path / "card")
    assert verify_release(path).outcome == "verified"
    card = (path / "README.md").read_bytes() + b"\nNothing can be learned about anybody.\n"
    rewrite(path, lambda fields: None, content={"README.md": card})
    assert verify_release(path).missing_checks == ("card text",)


def test_only_what_was_checked_is_verified():
    passed = [Check(name, True, "") for name in ("steps", "record", "description", "card text")]
    assert Verification(tuple(passed)).ok
    for missing in range(4):
        assert not Verification(tuple(passed[:missing] + passed[missing + 1 :])).ok


@pytest.mark.parametrize(
    ("name", "train", "kind"),
    [
        ("film", None, "state"),
        ("lora", None, "low-rank"),
        ("warm-start-network", "all", "state-beside"),
        ("warm-start-network", "last", None),
        ("pate", None, "state"),
        ("pate", None, None),
        ("noisy-gd", None, None),
    ],
)
def test_an_encoder_is_changed_as_the_method_changes_one(name, train, kind):
    """Whoever claims another change has arrays on record that no step of the method released."""
    method = METHODS[name]()
    method = method if train is None else replace(method, train=train)
    allowed = (None, "state") if name == "pate" else (kind,)
    assert kind in allowed
    assert changes_of_encoder(method) == allowed


def test_a_change_of_the_encoder_of_another_kind_fails():
    from contracts.pictures import quick

    made = fit_sample(quick(METHODS["film"]))
    assert check_record(made).passed
    assert fails(replace(made, encoder_delta=replace(made.encoder_delta, kind="low-rank")), "encoder")
