import json
import shutil

import pytest

from dptransfer.errors import DataError
from dptransfer.federation import OwnerKey, SharesMissing, join
from dptransfer.federation.share_files import Share, ShareFolder
from federation.owners import Owners


@pytest.fixture
def owners(tmp_path):
    found = Owners(tmp_path)
    for name in found.names:
        found.share(name)
    return found


def files(owners):
    return sorted(owners.folder.iterdir())


def test_names_of_files_mean_nothing(owners):
    first, second, _ = files(owners)
    before = owners.join()
    swapped = owners.folder / "x.share"
    first.rename(swapped)
    second.rename(first)
    swapped.rename(second)
    assert (owners.join().head.form[0] == before.head.form[0]).all()


def test_shares_may_be_given_as_files(owners):
    assert join(owners.study, files(owners)).classes == owners.study.facts.classes


def test_a_missing_share_is_said_with_its_owner(owners):
    files(owners)[1].unlink()
    with pytest.raises(SharesMissing, match="owner-1"):
        owners.join()


def test_a_doubled_share_is_refused(owners):
    shutil.copy(files(owners)[0], owners.folder / "copy.share")
    with pytest.raises(DataError, match="one share"):
        owners.join()


@pytest.mark.parametrize("cut", [0, 4, 200, -1])
def test_a_truncated_share_is_refused(owners, cut):
    path = files(owners)[0]
    path.write_bytes(path.read_bytes()[:cut])
    with pytest.raises(DataError, match="whole"):
        owners.join()


def test_a_changed_number_is_refused(owners):
    path = files(owners)[0]
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    with pytest.raises(DataError, match="digests"):
        owners.join()


def test_a_changed_header_is_refused(owners):
    path = files(owners)[0]
    path.write_bytes(path.read_bytes().replace(b"class sums", b"class sumz"))
    with pytest.raises(DataError, match="is signed with"):
        owners.join()


def test_a_share_of_one_owner_signed_by_another_is_refused(owners):
    first = Share.read(files(owners)[0], owners.study)
    forged = owners.keys["owner-1"].sign(first.header.text)
    files(owners)[0].write_bytes(Share(forged, first.answers).content)
    with pytest.raises(DataError, match="is signed with"):
        owners.join()


def test_a_share_of_somebody_who_is_no_owner_is_refused(owners):
    stranger, study = OwnerKey(bytes(32)), owners.study
    first = Share.read(files(owners)[0], study)
    asked = [("class sums", first.answers[0])]
    made = Share.sign(study, "owner-9", stranger, (1, study.digest, "00"), asked)
    ShareFolder(study, [owners.folder]).put(made)
    with pytest.raises(DataError, match="is signed with"):
        owners.join()


def test_a_share_of_another_study_of_the_same_name_is_refused(owners):
    """Planned again, the same words are another study: its shares, noise and charges are its own."""
    other = owners.plan("again")
    assert other.digest != owners.study.digest
    assert other.record | {"nonce": ""} == owners.study.record | {"nonce": ""}
    owners.share("owner-0", study=other, folder=owners.tmp / "others")
    shutil.copy(owners.tmp / "others" / "owner-0.round-1.share", files(owners)[0])
    with pytest.raises(DataError, match="one study"):
        owners.join()
    assert len(owners.ledgers["owner-0"].history()) == 4  # two charges, closed


def signed(owners, name, *, number=1, after=None, asked=None):
    study = owners.study
    own = Share.read(owners.folder / f"{name}.round-1.share", study)
    asked = asked or [(one["what"], two) for one, two in zip(own.fields["answers"], own.answers, strict=True)]
    place = number, after or study.digest, own.fields["ledger_head"]
    return Share.sign(study, name, owners.keys[name], place, asked)


def test_a_share_after_another_history_is_refused(owners):
    files(owners)[0].write_bytes(signed(owners, "owner-0", after="11" * 32).content)
    with pytest.raises(DataError, match="follow the same"):
        owners.join()


def test_an_answer_to_another_question_is_refused(owners):
    answer = Share.read(files(owners)[0], owners.study).answers[0]
    files(owners)[0].write_bytes(signed(owners, "owner-0", asked=[("class sums", answer[:1])]).content)
    with pytest.raises(DataError, match="same questions"):
        owners.join()


def test_a_share_of_a_round_that_there_is_not_is_refused(owners):
    ShareFolder(owners.study, [owners.folder]).put(signed(owners, "owner-0", number=2))
    with pytest.raises(DataError, match="later"):
        owners.join()


@pytest.mark.parametrize("content", [b"", b"nonsense", b'{"a": 1}'])
def test_what_is_no_share_is_refused(owners, content):
    (owners.folder / "odd.share").write_bytes(content)
    with pytest.raises(DataError):
        owners.join()


def test_a_study_is_no_share(owners):
    shutil.copy(owners.tmp / "s.study", owners.folder / "odd.share")
    with pytest.raises(DataError, match="another kind"):
        owners.join()


def test_a_file_is_read_once_unless_it_changes(owners, monkeypatch):
    folder, read = ShareFolder(owners.study, [owners.folder]), []
    plain = Share.read
    monkeypatch.setattr(Share, "read", lambda *given: read.append(1) or plain(*given))
    folder.shares(), folder.shares()
    assert len(read) == 3
    files(owners)[0].write_bytes(b"")
    with pytest.raises(DataError):
        folder.shares()


def test_a_file_that_is_being_copied_is_waited_for(owners):
    from threading import Timer

    path = files(owners)[0]
    content = path.read_bytes()
    path.write_bytes(content[:100])
    Timer(0.3, path.write_bytes, (content,)).start()
    folder = ShareFolder(owners.study, [owners.folder])
    assert list(folder.collect(1, owners.study.digest, wait=30)) == owners.names


def field_changed(header, name, value):
    fields = json.loads(header)
    fields[name] = value
    return json.dumps(fields)


@pytest.mark.parametrize(
    "forge",
    [
        lambda text: field_changed(text, "owner", []),
        lambda text: field_changed(text, "after", 7),
        lambda text: field_changed(text, "ledger_head", None),
        lambda text: "[" * 100_000,
    ],
)
def test_a_header_that_is_none_is_refused_in_words(owners, forge):
    """Whoever can write into the folder can put one there."""
    first = Share.read(files(owners)[0], owners.study)
    header = owners.keys["owner-0"].sign(forge(first.header.text))
    files(owners)[0].write_bytes(Share(header, first.answers).content)
    with pytest.raises(DataError, match="whole"):
        owners.join()


def test_links_that_lead_nowhere_are_refused_in_words(owners):
    own = files(owners)[0]
    own.unlink()
    own.symlink_to(owners.tmp / "nothing")
    with pytest.raises(DataError, match="another one"):
        owners.share("owner-0")
    with pytest.raises(DataError, match="must be there"):
        owners.join()
