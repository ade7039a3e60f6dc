import shutil
from dataclasses import replace

import numpy as np
import pytest

from dptransfer import evaluate, verify
from dptransfer.accounting import guarantee_of
from dptransfer.privacy import event_to_dict, rounded_up
from dptransfer.release import verify_files, write_release
from dptransfer.release.bundle import read_release
from dptransfer.release.evaluation import mean_interval, wilson
from dptransfer.release.exchange import text_files
from dptransfer.release.verify import RECORD, STEPS, WORDS, Check

from .counts import evaluation as charged_results
from .models import CHOICE, FILES, NOISE, ROUNDS, SAMPLED, TUNED, make_model, rewrite, rows


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    model = make_model()
    evaluation = evaluate(model, rows(), [0, 1] * 10, public=True)
    return write_release(model, tmp_path_factory.mktemp("verify") / "good", evaluation=evaluation)


@pytest.fixture
def release(written, tmp_path):
    return shutil.copytree(written, tmp_path / "copy")


def failed(path):
    return set(verify_files(path).failures)


def set_guarantee(fields, guarantee):
    fields.update(guarantee=guarantee.to_dict(), relation=guarantee.relation.value, delta=guarantee.delta)


def forge(release, change):
    """Change the manifest and write the cards that go with the change, as a careful forger would."""
    rewrite(release, change)
    made = text_files(read_release(release), None)
    files = {name: text.encode() for name, text in made.items()}
    rewrite(release, lambda fields: fields.update(evaluation=None), content=files)


def test_an_honest_release_passes_every_check(release):
    result = verify_files(release)
    assert all(check.passed for check in result.checks)
    report = result.to_dict()
    assert report["failed"] == []
    assert (report["method"], report["delta"], report["relation"]) == ("mean-prototypes", 1e-5, "add/remove")
    assert report["epsilon"] == report["recomputed_epsilon"] == guarantee_of((NOISE,), 1e-5).epsilon
    (event,) = report["events"]
    assert (event["kind"], event["noise_multiplier"], event["scale"], event["sensitivity"]) == (
        "gaussian",
        4,
        4,
        1,
    )
    assert {"name", "passed", "detail", "required"} == set(report["checks"][0])
    assert repr(result) == f"Verification(not all checked; {len(result.checks)} checks)"
    (release / "README.md").write_text("another")
    assert repr(verify_files(release)).startswith("Verification(failed: file README.md")


def restated(**changes):
    """The guarantee changed, with the sentence of what is said then."""
    return lambda fields: set_guarantee(fields, replace(make_model().guarantee, **changes))


def edited(name, value):
    return lambda fields: fields["guarantee"].update({name: value})


TRUE = make_model().guarantee
NO_STEPS = replace(guarantee_of((), 0.0, relation=NOISE.relation), delta=0.3)
NUMBERS = {"card numbers", "card text"}
FORGED = {  # a change, and the checks that fail once cards and checksums were put right
    "nothing": (restated(), set()),
    **{f"epsilon x {by}": (restated(epsilon=TRUE.epsilon * by), {"guarantee"}) for by in (0.5, 0.9995, 1.05)},
    "delta": (restated(delta=1e-7), {"guarantee"}),
    "pure privacy": (restated(epsilon=5.0, delta=0.0, rho=None, mu=None), {"guarantee"}),
    **{f"half of {name}": (edited(name, getattr(TRUE, name) / 2), {"guarantee"}) for name in ("mu", "rho")},
    **{f"no {name}": (edited(name, None), {"guarantee"}) for name in ("mu", "rho")},
    **{
        f"noise {noise}": (
            lambda fields, noise=noise: fields["events"][0].update(noise_multiplier=noise, scale=noise),
            {"guarantee"},
        )
        for noise in (2.0, 8.0)
    },
    "another step": (lambda fields: fields["events"].append(fields["events"][0]), {"guarantee"}),
    "no steps": (lambda fields: fields.update(events=[]), {"guarantee"}),
    "no steps at a large delta": (
        lambda fields: (fields.update(events=[]), set_guarantee(fields, NO_STEPS)),
        {"guarantee", "promise"},
    ),
}


@pytest.mark.parametrize("forgery", FORGED)
def test_an_edited_guarantee_or_step_is_caught_though_cards_and_checksums_were_put_right(release, forgery):
    change, caught = FORGED[forgery]
    forge(release, change)
    assert failed(release) == caught


def test_an_edited_relation_never_passes(release):
    rewrite(release, lambda fields: fields.update(relation="replace-one"))
    result = verify_files(release)
    assert result.outcome == "failed"
    assert result.epsilon is None


EDITS = {  # of a card: file, what is replaced (or put at the end), by what, and what fails
    "epsilon in words": (
        "README.md",
        f"| epsilon | {rounded_up(TRUE.epsilon)} |",
        "| epsilon | 0.01 |",
        NUMBERS,
    ),
    "epsilon for programs": ("card.html", repr(TRUE.epsilon), "0.01", NUMBERS),
    "a second epsilon in words": ("README.md", "", "\n| epsilon | 0.01 |\n", NUMBERS),
    "a second epsilon for programs": (
        "card.html",
        "",
        '<b data-number="epsilon" data-value="0.01"></b>',
        NUMBERS,
    ),
    "the sentence": ("README.md", "one example", "one hospital", NUMBERS),
    "the sentence of the page": ("card.html", "one example", "one hospital", NUMBERS),
    "epsilon of the hub": ("README.md", f"epsilon: {TRUE.epsilon!r}", "epsilon: 0.01", NUMBERS),
    "epsilon of MLflow": ("MLmodel", f"epsilon: {TRUE.epsilon!r}", "epsilon: 0.01", NUMBERS),
    "a second epsilon of MLflow": ("MLmodel", "", "epsilon: 0.01\n", NUMBERS),
    "the loader of MLflow": ("MLmodel", "dptransfer.mlflow", "somebody.else", {"card text"}),
    "other words": ("README.md", "does not cover:", "also covers:", {"card text"}),
}


@pytest.mark.parametrize("edit", EDITS)
def test_an_edited_card_is_caught_though_its_checksum_was_put_right(release, edit):
    name, old, new, caught = EDITS[edit]
    text = (release / name).read_text()
    for other in [text.replace(old, new)] if old else [text + new, new + text]:
        assert other != text
        rewrite(release, lambda fields: None, content={name: other.encode()})
        assert failed(release) == caught
        rewrite(release, lambda fields: fields["versions"].update(numpy="0"))
        assert failed(release) == caught - {"card text"}
        rewrite(release, lambda fields: fields["versions"].update(numpy=np.__version__))


def test_other_versions_are_a_note_and_no_failure(release):
    rewrite(release, lambda fields: fields["versions"].update(numpy="0.1"))
    result = verify_files(release)
    assert result.failures == ()
    notes = {check.name: check for check in result.checks if not check.passed}
    assert {name: note.required for name, note in notes.items()} == {"versions": False, "card text": False}
    assert "numpy 0.1" in notes["versions"].detail
    assert "other versions" in notes["card text"].detail


def test_other_files_are_a_note_and_no_failure(release):
    (release / "notes.pkl").write_bytes(b"\x80\x04.")
    result = verify_files(release)
    assert result.failures == ()
    assert [check.name for check in result.checks if not check.passed] == ["other files"]


def test_a_seeded_release_never_passes(tmp_path):
    path = make_model(seeded=True).save(tmp_path / "r", unsafe_for_publication=True)
    assert failed(path) == {"publishable"}
    rewrite(path, lambda fields: fields.update(publishable=True))
    assert failed(path) == {"schema"}


@pytest.mark.parametrize("name", FILES)
def test_a_changed_or_missing_file_is_one_failed_check_and_no_exception(release, name):
    caught = ("schema",) if name == "release.json" else (f"file {name}",)
    (release / name).write_bytes((release / name).read_bytes() + b" ")
    assert verify_files(release).failures == caught
    (release / name).unlink()
    assert verify_files(release).failures == caught


def test_only_steps_that_were_planned_again_make_a_release_verified(release):
    """Without that check a release with a sensitivity of 0.001 would pass as well."""
    result = verify_files(release)
    assert (result.ok, result.outcome) == (False, "not all checked")
    for passed, required, outcome in (
        (True, True, "verified"),
        (False, False, "not all checked"),
        (False, True, "failed"),
    ):
        others = (Check(RECORD, True, ""), Check(WORDS, True, ""))
        whole = replace(result, checks=(*result.checks, *others, Check(STEPS, passed, "", required)))
        assert (whole.outcome, whole.ok) == (outcome, outcome == "verified")
        assert (whole.to_dict()["outcome"], whole.to_dict()["ok"]) == (outcome, whole.ok)


@pytest.mark.parametrize("events", [(), (ROUNDS,), (SAMPLED, NOISE), (TUNED, CHOICE)], ids=len)
def test_releases_of_every_kind_of_step_verify(tmp_path, events):
    model = make_model(events=events)
    path = write_release(model, tmp_path / "release")
    result = verify_files(path)
    assert all(check.passed for check in result.checks)
    assert result.recomputed_epsilon == model.guarantee.epsilon
    assert read_release(path).events == events
    if not events:
        assert (result.epsilon, result.delta) == (0.0, 0.0)


def test_a_step_hidden_from_a_release_is_noticed(tmp_path):
    """A guarantee that the recorded steps do not have fails, with fewer steps and with cheaper ones."""
    path = write_release(make_model(events=(SAMPLED,)), tmp_path / "release")
    for times in (0, 100, 900):
        events = [event_to_dict(replace(SAMPLED, times=times))] if times else []
        copy = shutil.copytree(path, tmp_path / f"copy-{times}")
        forge(copy, lambda fields, events=events: fields.update(events=events))
        assert "guarantee" in failed(copy)


@pytest.fixture
def charged(tmp_path):
    model = replace(make_model(), charged=charged_results())
    return write_release(model, tmp_path / "charged")


def test_charged_test_results_are_recomputed(charged):
    found = verify_files(charged)
    assert found.failures == ()
    assert "charged evaluation" not in verify(charged).failures
    (check,) = (one for one in found.checks if one.name == "charged evaluation")
    assert "recomputed 0.2" in check.detail


@pytest.mark.parametrize(
    "change",
    [
        lambda told: told["events"][0].update(sensitivity=0.5, scale=told["events"][0]["scale"] / 2),
        lambda told: told["counts"]["noise"].update(answers=told["counts"]["noise"]["answers"] / 2),
        lambda told: told["counts"].update(person_bound=1.0, unit="person"),
        lambda told: told["guarantee"].update(
            epsilon=0.1, sentence=told["guarantee"]["sentence"].replace("0.2", "0.1")
        ),
        lambda told: told.update(events=[event_to_dict(CHOICE)]),
        lambda told: told["counts"]["chance_edges"].__setitem__(0, "0.001"),
        lambda told: told["counts"]["temperatures"].__setitem__(0, 0.99 * told["counts"]["temperatures"][0]),
        lambda told: told["counts"]["blocks"]["answers"].__setitem__(0, 1e200),
    ],
)
def test_charged_test_results_that_cost_more_than_they_say_fail(charged, change):
    rewrite(charged, lambda fields: change(fields["charged_evaluation"]))
    assert "charged evaluation" in verify(charged).failures


def test_a_release_with_seeded_test_results_is_not_publishable(tmp_path):
    model = replace(make_model(), charged=charged_results(seeded=True))
    path = write_release(model, tmp_path / "seeded", unsafe_for_publication=True)
    assert "publishable" in failed(path)
    rewrite(path, lambda fields: fields.update(publishable=True))
    assert failed(path)


@pytest.mark.parametrize(
    ("events", "delta", "word"),
    [
        ((NOISE,), 0.1, "delta"),
        ((NOISE,), 0.3, "delta"),
        ((replace(NOISE, noise_multiplier=0.02, numeric_epsilon=0.0),), 1e-5, "epsilon"),
    ],
)
def test_a_promise_that_no_fit_would_make_fails(tmp_path, events, delta, word):
    result = verify_files(make_model(events=events, delta=delta).save(tmp_path / "r"))
    assert result.failures == ("promise",)
    (check,) = (one for one in result.checks if one.name == "promise")
    assert word in check.detail


def test_a_weak_promise_is_a_note_and_a_warning(tmp_path):
    """For 100 declared examples δ should be at most 1e-3, and epsilon at most 10 for anybody."""
    strong, large = replace(NOISE, noise_multiplier=0.4), make_model(delta=0.0011)
    for model, warned in (
        (make_model(delta=1e-3), 0),
        (large, 1),
        (make_model(events=(strong,)), 1),
        (make_model(events=(strong,), delta=0.0011), 2),
        (replace(large, facts=replace(large.facts, size=10)), 0),
    ):
        result = verify_files(model.save(tmp_path / f"{id(model)}"))
        notes = [one for one in result.checks if one.name == "promise" and not one.passed]
        assert (len(notes), result.failures) == (warned, ())
        assert not any(one.required for one in notes)


def test_a_charged_evaluation_that_promises_nothing_fails(charged):
    told = charged_results()
    lied = guarantee_of(told.events, 0.2, told.guarantee.assumptions)
    rewrite(charged, lambda fields: fields["charged_evaluation"].update(guarantee=lied.to_dict()))
    assert "promise to test rows" in failed(charged)


HIDDEN = {"size": None, "support": [], "confusion": [], "public": False}


def doubled(told):
    size, hits = 2 * told["size"], round(told["accuracy"] * told["size"])
    told.update(size=size, accuracy=hits / size, accuracy_interval=list(wilson(hits, size)))


def in_table(told, moved):
    """Predictions more or less, with the F1 that such a table has."""
    table = np.array(told["confusion"])
    for place, by in moved.items():
        table[place] += by
    own, guessed = table.sum(axis=1), table.sum(axis=0)
    f1 = 2 * table.diagonal()[own > 0] / (own + guessed)[own > 0]
    told.update(confusion=table.tolist(), macro_f1=float(f1.mean()))


def narrowed(told):
    known = [place for place, recall in enumerate(told["recall"]) if recall is not None]
    told["recall_intervals"][known[0]] = [told["recall"][known[0]]] * 2
    shares, own = ([told[name][place] for place in known] for name in ("recall", "recall_intervals"))
    told.update(balanced_interval=list(mean_interval(shares, own)))
    told.update(minority_classes=[], minority_accuracy=None, minority_interval=None)


FIGURES = {
    "size": lambda told: told.update(size=told["size"] + 1),
    "support": lambda told: told["support"].__setitem__(0, 9),
    "recall": lambda told: told["recall"].__setitem__(0, 1.0),
    "recall interval": lambda told: told["recall_intervals"].__setitem__(0, [0.9, 1.0]),
    "accuracy": lambda told: told.update(accuracy=0.99),
    "balanced accuracy": lambda told: told.update(balanced_accuracy=0.99),
    "worst class": lambda told: told.update(worst_class="eel"),
    "macro F1": lambda told: told.update(macro_f1=1.0),
    "confusion": lambda told: told["confusion"][0].__setitem__(0, 99),
    "minority": lambda told: told.update(minority_accuracy=0.99),
    "size, and the accuracy that follows": doubled,
    "a row moved to another class, with its F1": lambda told: in_table(told, {(0, 0): -1, (0, 1): 1}),
    "a row more, with its F1": lambda told: in_table(told, {(0, 1): 1}),
    "an interval, and the mean that follows": narrowed,
    "support of a test set that is not public": lambda told: told.update(HIDDEN, support=told["support"]),
    "table of a test set that is not public": lambda told: told.update(HIDDEN, confusion=told["confusion"]),
    "accuracy of a test set that is not public": lambda told: told.update(HIDDEN, balanced_accuracy=0.99),
    "accuracy without a table": lambda told: told.update(confusion=[], accuracy=0.99),
    "recalls that are none": lambda told: told.update(HIDDEN, recall=[None] * 3, recall_intervals=[None] * 3),
}


@pytest.mark.parametrize("wrong", FIGURES)
def test_figures_that_are_not_those_of_their_own_table_fail(release, wrong):
    rewrite(release, lambda fields: FIGURES[wrong](fields["evaluation"]))
    assert "evaluation" in failed(release)


@pytest.mark.parametrize("change", [{}, {"confusion": []}, HIDDEN])
def test_figures_without_a_table_or_of_unknown_sizes_are_compared_with_one_another(release, change):
    rewrite(release, lambda fields: fields["evaluation"].update(change))
    assert "evaluation" not in failed(release)
