import gc
import shutil
import subprocess
import sys
import tempfile

import pytest

from dptransfer.sources import archives as unpacked
from dptransfer.sources.archives import TemporaryFolder


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_the_folder_is_its_owners_alone_and_goes_with_its_holder(place):
    held = TemporaryFolder()
    (held.path / "picture.png").write_bytes(b"secret")
    assert held.path.parent == place
    assert held.path.stat().st_mode & 0o777 == 0o700
    del held
    gc.collect()
    assert list(place.iterdir()) == []


def test_what_a_killed_process_left_is_removed_and_what_a_living_one_holds_is_not(place):
    code = (
        "import os, tempfile; tempfile.tempdir = os.environ['PLACE'];"
        "from dptransfer.sources.archives import TemporaryFolder; held = TemporaryFolder(); os._exit(9)"
    )
    import os

    subprocess.run([sys.executable, "-c", code], env={**os.environ, "PLACE": str(place)}, check=False)
    (left,) = place.iterdir()
    first = TemporaryFolder()
    assert not left.exists()
    second = TemporaryFolder()
    assert first.path.is_dir()
    assert second.path.is_dir()


def test_folders_of_others_and_links_are_left_alone(place, tmp_path_factory):
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (elsewhere / ".lock").touch()
    (place / "dptransfer-unpacked-link").symlink_to(elsewhere)
    (place / "dptransfer-unpacked-bare").mkdir()
    TemporaryFolder()
    assert (elsewhere / ".lock").exists()
    assert (place / "dptransfer-unpacked-bare").exists()


def test_a_folder_that_another_process_took_for_left_behind_is_not_used(place, monkeypatch):
    taken = []
    locked = unpacked.try_lock

    def too_late(lock):
        if not taken:
            (folder,) = place.iterdir()
            taken.append(folder)
            shutil.rmtree(folder)
        return locked(lock)

    monkeypatch.setattr(unpacked, "try_lock", too_late)
    held = TemporaryFolder()
    assert taken
    assert held.path.is_dir()
    assert held.path not in taken
