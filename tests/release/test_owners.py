import json
import shutil

import pytest

import dptransfer as dpt
from dptransfer.accounting import epsilon_of
from dptransfer.errors import ReleaseError
from dptransfer.privacy import GaussianEvent, Relation, Unit
from dptransfer.release.manifest import MANIFEST_NAME, manifest_bytes
from dptransfer.release.owners import (
    against_whom,
    for_person_of_two,
    history_digest,
    noise_factor,
    record_digest,
)
from federation.owners import Owners


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    owners = Owners(tmp_path_factory.mktemp("owners"))
    owners.rounds()
    owners.join().save(owners.tmp / "model")
    return owners


def forged(made, tmp_path, change):
    """The release with another record of its owners, and a digest that fits."""
    shutil.copytree(made.tmp / "model", tmp_path / "model")
    path = tmp_path / "model" / MANIFEST_NAME
    fields = json.loads(path.read_text())
    change(fields["owners"])
    path.write_bytes(manifest_bytes(fields))
    return dpt.verify(tmp_path / "model")


def study_says(**fields):
    def change(record):
        record["study"] |= fields
        record["digest"] = record_digest(record["study"])

    return change


def without_a_share(record):
    record["shares"].pop()


def with_one_share_twice(record):
    record["shares"][1] = record["shares"][0]


def with_another_header(record):
    share = record["shares"][0]
    share["header"] = share["header"].replace('"round":1', '"round":2')


def with_all_headers_changed(record):
    for share in record["shares"]:
        share["header"] = share["header"].replace('"round":1', '"round":2')


@pytest.mark.parametrize(
    "change",
    [
        lambda record: record.update(digest="00" * 32),
        lambda record: record.pop("shares"),
        lambda record: record["study"].update(colluders=1),
        without_a_share,
        with_one_share_twice,
        with_another_header,
        with_all_headers_changed,
        study_says(epsilon=1.0),
        study_says(delta=1e-9),
        study_says(relation="replace-one"),
        study_says(method={}),
        study_says(facts={}),
        study_says(public={"rows": 1}),
        study_says(events=[]),
        study_says(trust="me"),
        study_says(colluders=3),
        study_says(owners={"a": "00"}),
    ],
)
def test_a_record_that_was_changed_does_not_verify(made, tmp_path, change):
    assert {"owners", "model"} <= set(forged(made, tmp_path, change).failures)
    with pytest.raises(ReleaseError):
        dpt.load(tmp_path / "model")


def test_a_signed_header_without_a_ledger_head_does_not_verify(made, tmp_path):
    """The card has a line for it."""

    def change(record):
        fields = json.loads(record["shares"][0]["header"]) | {"ledger_head": None}
        signed = made.keys["owner-0"].sign(json.dumps(fields))
        record["shares"][0] = {"header": signed.text, "signature": signed.signature}

    assert {"owners", "model"} <= set(forged(made, tmp_path, change).failures)


def test_a_record_that_was_not_changed_does(made, tmp_path):
    assert forged(made, tmp_path, lambda record: None).outcome == "verified"


def test_a_person_of_two_owners_pays_root_two_by_files_and_twice_under_one_noise():
    event = GaussianEvent(4.0, Relation.ADD_REMOVE, 1.0, "sums", unit=Unit.PERSON)
    promise = dpt.accounting.guarantee_of([event], 1e-5)
    files, secure = (for_person_of_two([event], promise, trust).epsilon for trust in ("files", "secure-sum"))
    for found, multiplier in ((files, 4 / 2**0.5), (secure, 2.0)):
        alike = GaussianEvent(multiplier, Relation.ADD_REMOVE, 1.0, "sums", unit=Unit.PERSON)
        assert found == pytest.approx(epsilon_of([alike], 1e-5), rel=1e-6)


def test_noise_of_a_total_is_that_of_k_fits_by_files_and_of_k_minus_t_in_a_secure_sum():
    assert noise_factor("files", 9, 0) == 3.0
    assert noise_factor("secure-sum", 9, 8) == 3.0
    assert noise_factor("secure-sum", 9, 0) == 1.0


def test_a_history_has_another_digest_if_anything_before_it_has():
    digests = {
        history_digest(before, headers)
        for before in ("a", "b")
        for headers in ({"x": "1", "y": "2"}, {"x": "2", "y": "1"}, {"x": "1"})
    }
    assert len(digests) == 6
    assert history_digest("a", {"x": "1", "y": "2"}) == history_digest("a", {"y": "2", "x": "1"})


@pytest.mark.parametrize(
    ("trust", "colluders", "words"),
    [
        ("files", 0, "all other owners"),
        ("secure-sum", 0, "no other owner"),
        ("secure-sum", 1, "one other owner"),
        ("secure-sum", 2, "2 other owners"),
    ],
)
def test_against_whom_a_promise_holds_is_said_in_words(trust, colluders, words):
    assert words in against_whom({"trust": trust, "colluders": colluders})
