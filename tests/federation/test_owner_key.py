import os

import pytest

from dptransfer.errors import DataError
from dptransfer.federation import OwnerKey


def test_a_key_comes_back_from_its_file_and_is_for_its_owner_alone(tmp_path):
    key = OwnerKey.create(tmp_path / "a.key")
    assert os.stat(key.path).st_mode & 0o077 == 0
    assert OwnerKey.load(key.path) == key
    assert key.secret.hex() not in repr(key)


def test_a_key_is_not_replaced(tmp_path):
    OwnerKey.create(tmp_path / "a.key")
    with pytest.raises(DataError):
        OwnerKey.create(tmp_path / "a.key")


def test_signatures_are_of_one_key_and_one_text():
    key, other = OwnerKey(bytes(32)), OwnerKey(bytes([1]) * 32)
    signed = key.sign("text")
    assert signed.is_signed_by(key.public)
    assert not signed.is_signed_by(other.public)
    assert not type(signed)("texT", signed.signature).is_signed_by(key.public)
    assert not type(signed)("text", "00").is_signed_by(key.public)


def test_two_owners_share_a_secret_that_a_third_does_not():
    one, two, three = (OwnerKey(bytes([n]) * 32) for n in range(3))
    shared = one.secret_shared_with(two.public)
    assert shared == two.secret_shared_with(one.public)
    assert shared not in (three.secret_shared_with(one.public), three.secret_shared_with(two.public))


@pytest.mark.parametrize("content", [b"", b"nonsense\n00", b"dptransfer owner key 1\nzz\n", b"\xff\xfe"])
def test_what_is_no_key_is_refused(tmp_path, content):
    (tmp_path / "a.key").write_bytes(content)
    (tmp_path / "a.key").chmod(0o600)
    with pytest.raises(DataError):
        OwnerKey.load(tmp_path / "a.key")


def test_a_key_that_others_may_read_or_that_is_missing_is_refused(tmp_path):
    key = OwnerKey.create(tmp_path / "a.key")
    key.path.chmod(0o644)
    with pytest.raises(DataError, match="chmod 600"):
        OwnerKey.load(key.path)
    with pytest.raises(DataError):
        OwnerKey.load(tmp_path / "b.key")
