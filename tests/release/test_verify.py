import shutil
from dataclasses import replace

import pytest

from dptransfer.accounting import guarantee_of
from dptransfer.errors import ReleaseError
from dptransfer.privacy import event_from_dict, event_to_dict, rounded_up
from dptransfer.release import evaluate, verify_files, write_release
from dptransfer.release.bundle import read_release
from dptransfer.release.card import card_of
from dptransfer.release.verify import STEPS, Check

from .models import CHOICE, FILES, NOISE, ROUNDS, SAMPLED, TUNED, make_model, rewrite, rows
from .noisy_evaluations import evaluation as charged_results


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    model = make_model()
    evaluation = evaluate(model, rows(), [0, 1] * 10)
    return write_release(model, tmp_path_factory.mktemp("verify") / "good", evaluation=evaluation)


@pytest.fixture
def release(written, tmp_path):
    return shutil.copytree(written, tmp_path / "copy")


def failed(path):
    return set(verify_files(path).failed)


def set_guarantee(fields, guarantee):
    fields.update(guarantee=guarantee.to_dict(), relation=guarantee.relation.value, delta=guarantee.delta)


def forge(release, change):
    """Change the manifest and write the cards that go with the change, as a careful forger would."""
    rewrite(release, change)
    card = card_of(read_release(release))
    files = {"CARD.md": card.markdown().encode(), "card.html": card.html().encode()}
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
    assert repr(result) == f"Verification(steps not checked; {len(result.checks)} checks)"
    (release / "CARD.md").write_text("another")
    assert repr(verify_files(release)).startswith("Verification(failed: file CARD.md")


@pytest.mark.parametrize(
    ("events", "delta"),
    [((CHOICE,), 0.0), ((CHOICE, CHOICE), 0.0), ((CHOICE,) * 30, 1e-5), ((NOISE, CHOICE), 1e-5)],
)
def test_selections_are_verified_too(events, delta, tmp_path):
    result = verify_files(make_model(events=events, delta=delta).save(tmp_path / "r"))
    assert result.failed == ()
    assert result.to_dict()["events"][-1]["epsilon"] == 0.5


@pytest.mark.parametrize("factor", [0.5, 0.999, 1.05])
def test_an_edited_epsilon_is_caught_though_cards_and_checksums_were_put_right(release, factor):
    guarantee = make_model().guarantee

    def change(fields):
        set_guarantee(fields, type(guarantee)(guarantee.epsilon * factor, 1e-5, guarantee.relation))

    forge(release, change)
    assert failed(release) == {"guarantee"}


def test_the_same_forgery_without_a_lie_passes(release):
    forge(release, lambda fields: set_guarantee(fields, make_model().guarantee))
    assert failed(release) == set()


@pytest.mark.parametrize("name", ["mu", "rho"])
def test_an_edited_mu_or_rho_is_caught(release, name):
    guarantee = make_model().guarantee
    fields = {**guarantee.to_dict(), name: getattr(guarantee, name) / 2}
    forge(release, lambda manifest: manifest["guarantee"].update(fields))
    assert failed(release) == {"guarantee"}


@pytest.mark.parametrize("noise", [2.0, 8.0])
def test_an_edited_event_is_caught(release, noise):
    forge(release, lambda fields: fields["events"][0].update(noise_multiplier=noise, scale=noise))
    assert failed(release) == {"guarantee"}


def test_an_added_event_is_caught_and_a_removed_one_too(tmp_path):
    path = make_model(events=(NOISE, NOISE)).save(tmp_path / "r")
    forge(path, lambda fields: fields["events"].append(fields["events"][0]))
    assert failed(path) == {"guarantee"}
    forge(path, lambda fields: fields.update(events=fields["events"][:1]))
    assert failed(path) == {"guarantee"}


def test_an_edited_delta_is_caught(release):
    guarantee = make_model().guarantee

    def change(fields):
        set_guarantee(fields, type(guarantee)(guarantee.epsilon, 1e-7, guarantee.relation))

    forge(release, change)
    assert failed(release) == {"guarantee"}


def test_a_claim_of_pure_privacy_for_gaussian_noise_is_caught(release):
    guarantee = make_model().guarantee
    forge(release, lambda fields: set_guarantee(fields, type(guarantee)(5.0, 0.0, guarantee.relation)))
    assert failed(release) == {"guarantee"}


def test_an_edited_relation_never_passes(release):
    rewrite(release, lambda fields: fields.update(relation="replace-one"))
    result = verify_files(release)
    assert result.outcome == "failed"
    assert result.epsilon is None


@pytest.mark.parametrize("name", ["CARD.md", "card.html"])
def test_a_card_with_other_numbers_is_caught_though_its_checksum_was_put_right(release, name):
    text = (release / name).read_text()
    epsilon = make_model().guarantee.epsilon
    shown, forged = {
        "CARD.md": (f"| epsilon | {rounded_up(epsilon)} |", "| epsilon | 0.01 |"),
        "card.html": (repr(epsilon), "0.01"),
    }[name]
    other = text.replace(shown, forged)
    assert other != text
    rewrite(release, lambda fields: None, content={name: other.encode()})
    assert failed(release) == {"card numbers", "card text"}


@pytest.mark.parametrize("power", ["1e-05", "1e-5"])
def test_a_release_with_the_numbers_of_earlier_versions_still_loads_and_verifies(release, power):
    """δ was written as 1e-05 first, with ε and δ in all their digits in CARD.md's table, then as 1e-5."""
    guarantee = make_model().guarantee
    shown = rounded_up(guarantee.epsilon) if power == "1e-5" else repr(guarantee.epsilon)
    card = (release / "CARD.md").read_text()
    for now, then in (
        (f"| epsilon | {rounded_up(guarantee.epsilon)} |", f"| epsilon | {shown} |"),
        ("| delta | 10⁻⁵ |", f"| delta | {power} |"),
        ("δ = 10⁻⁵", f"δ = {power}"),
    ):
        assert now in card
        card = card.replace(now, then)
    page = (release / "card.html").read_text().replace("δ = 10⁻⁵", f"δ = {power}")

    def earlier(fields):
        fields["guarantee"]["sentence"] = fields["guarantee"]["sentence"].replace("1e-5", power)
        fields["versions"]["numpy"] = "0"

    rewrite(release, earlier, content={"CARD.md": card.encode(), "card.html": page.encode()})
    assert read_release(release).guarantee == guarantee
    assert failed(release) == set()


@pytest.mark.parametrize("name", ["CARD.md", "card.html"])
def test_a_second_number_on_a_card_is_caught(release, name):
    extra = (
        "\n| epsilon | 0.01 |\n" if name == "CARD.md" else '<b data-number="epsilon" data-value="0.01"></b>'
    )
    text = (release / name).read_text()
    for forged in (text + extra, extra + text):
        rewrite(release, lambda fields: fields["versions"].update(numpy="0"), content={name: forged.encode()})
        assert "card numbers" in failed(release)


def test_a_card_with_other_words_is_caught_under_the_same_versions(release):
    text = (release / "CARD.md").read_text().replace("Not covered:", "Also covered:")
    rewrite(release, lambda fields: None, content={"CARD.md": text.encode()})
    assert failed(release) == {"card text"}


def test_other_versions_are_a_note_and_no_failure(release):
    rewrite(release, lambda fields: fields["versions"].update(numpy="0.1"))
    result = verify_files(release)
    assert result.failed == ()
    notes = {check.name: check for check in result.checks if not check.passed}
    assert {name: note.required for name, note in notes.items()} == {"versions": False, "card text": False}
    assert "numpy 0.1" in notes["versions"].detail
    assert "only its table of numbers was checked" in notes["card text"].detail


def test_other_files_are_a_note_and_no_failure(release):
    (release / "notes.pkl").write_bytes(b"\x80\x04.")
    result = verify_files(release)
    assert result.failed == ()
    assert [check.name for check in result.checks if not check.passed] == ["other files"]


def test_a_seeded_release_never_passes(tmp_path):
    path = make_model(seeded=True).save(tmp_path / "r", unsafe_for_publication=True)
    assert failed(path) == {"publishable"}
    rewrite(path, lambda fields: fields.update(publishable=True))
    assert failed(path) == {"schema"}


@pytest.mark.parametrize("name", FILES)
def test_a_changed_or_missing_file_is_a_failed_check_and_no_exception(release, name):
    (release / name).write_bytes((release / name).read_bytes() + b" ")
    assert failed(release) & {f"file {name}", "schema"}
    (release / name).unlink()
    assert failed(release) & {f"file {name}", "schema"}


def test_only_steps_that_were_planned_again_make_a_release_verified(release):
    """Without that check a release with a sensitivity of 0.001 would pass as well."""
    result = verify_files(release)
    assert (result.ok, result.outcome) == (False, "steps not checked")
    for passed, required, outcome in (
        (True, True, "verified"),
        (False, False, "steps not checked"),
        (False, True, "failed"),
    ):
        whole = replace(result, checks=(*result.checks, Check(STEPS, passed, "", required)))
        assert (whole.outcome, whole.ok) == (outcome, outcome == "verified")
        assert (whole.to_dict()["outcome"], whole.to_dict()["ok"]) == (outcome, whole.ok)


def test_no_directory_at_all_is_an_exception(tmp_path):
    with pytest.raises(ReleaseError, match="directory"):
        verify_files(tmp_path / "nothing")


def test_the_reported_events_can_be_read_back(release):
    assert tuple(event_from_dict(fields) for fields in verify_files(release).events) == (NOISE,)


def test_a_release_stripped_of_its_steps_fails(release):
    """No step at all is a valid record (some methods look at no private row); its epsilon is 0 then."""
    forge(release, lambda fields: fields.update(events=[]))
    assert "guarantee" in failed(release)


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
    assert found.failed == ()
    (check,) = (one for one in found.checks if one.name == "charged evaluation")
    assert "recomputed 0.2" in check.detail


@pytest.mark.parametrize(
    "change",
    [
        lambda told: told["events"][0].update(sensitivity=0.5, scale=told["events"][0]["scale"] / 2),
        lambda told: told["events"][0].update(times=9),
        lambda told: told["counts"]["noise"].update(answers=told["counts"]["noise"]["answers"] / 2),
        lambda told: told["counts"].update(person_bound=1.0, unit="person"),
        lambda told: told["guarantee"].update(
            epsilon=0.1, sentence=told["guarantee"]["sentence"].replace("0.2", "0.1")
        ),
        lambda told: told.update(holdout=7.0),
        lambda told: told["events"][0].update(numeric_epsilon=0.0),
        lambda told: told["events"][0].update(label="the weather"),
        lambda told: told["counts"]["chance_edges"].__setitem__(0, 0.002),
        lambda told: told["counts"]["chance_edges"].__setitem__(0, "0.001"),
        lambda told: told["counts"]["confidence_knots"].__setitem__(0, "0"),
        lambda told: told["counts"].update(temperatures=[1.0] * 5),
        lambda told: told["counts"]["blocks"]["answers"].__setitem__(0, 1e200),
    ],
)
def test_charged_test_results_that_cost_more_than_they_say_fail(charged, change):
    rewrite(charged, lambda fields: change(fields["charged_evaluation"]))
    assert {"charged evaluation"} <= failed(charged)


def test_a_release_with_seeded_test_results_is_not_publishable(tmp_path):
    model = replace(make_model(), charged=charged_results(seeded=True))
    path = write_release(model, tmp_path / "seeded", unsafe_for_publication=True)
    assert "publishable" in failed(path)
    rewrite(path, lambda fields: fields.update(publishable=True))
    assert failed(path)


@pytest.mark.parametrize("name", ["CARD.md", "model.safetensors"])
def test_a_file_that_is_not_as_recorded_is_told_of_once(name, release):
    saved = release
    (saved / name).write_bytes((saved / name).read_bytes() + b" ")
    assert verify_files(saved).failed == (f"file {name}",)
    (saved / name).unlink()
    assert verify_files(saved).failed == (f"file {name}",)
