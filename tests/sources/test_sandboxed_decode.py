import os
import signal
from contextlib import closing

import numpy as np
import pytest
from PIL import Image

from dptransfer.errors import DataError
from dptransfer.sources.decode import SandboxedDecoder, open_image


@pytest.fixture
def picture(tmp_path):
    path = tmp_path / "a.png"
    Image.fromarray(np.arange(300, dtype=np.uint8).reshape(10, 10, 3)).save(path)
    return path


@pytest.mark.slow
def test_pictures_are_those_that_open_image_gives_and_what_hangs_or_crashes_is_unreadable(
    picture, tmp_path, monkeypatch
):
    """The child imports a sitecustomize that hangs on one name and dies on another, inside of a C call."""
    (tmp_path / "sitecustomize.py").write_text(
        "import os, time\n"
        "from pathlib import Path\n"
        "import dptransfer.sources.decode as decode\n"
        "real = decode.open_image\n"
        "def opened(path, greys):\n"
        "    if Path(path).name == 'hangs.png':\n"
        "        time.sleep(600)\n"
        "    if Path(path).name == 'dies.png':\n"
        "        os.abort()\n"
        "    return real(path, greys)\n"
        "decode.open_image = opened\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("hangs.png", "dies.png"):
        (tmp_path / name).write_bytes(picture.read_bytes())
    (tmp_path / "damaged.png").write_bytes(b"damaged")
    with closing(SandboxedDecoder(seconds=0.5)) as apart:
        for name in ("damaged.png", "hangs.png", "dies.png"):
            with pytest.raises(DataError, match="Repair or remove"):
                apart(tmp_path / name)
        found = apart(picture)
        child = apart._child.pid
    assert np.array_equal(np.asarray(found), np.asarray(open_image(picture)))
    with pytest.raises(ProcessLookupError):
        os.kill(child, signal.SIGKILL)


def test_nothing_is_imported_from_the_folder_that_we_are_in(picture, tmp_path, monkeypatch):
    """It may be a folder of pictures from anywhere."""
    (tmp_path / "PIL.py").write_text("open('taken', 'w')")
    monkeypatch.chdir(tmp_path)
    with closing(SandboxedDecoder()) as apart:
        assert apart(picture).size == (10, 10)
    assert not (tmp_path / "taken").exists()


def test_a_declared_grey_range_reaches_the_child_which_ends_when_nobody_asks_any_more(tmp_path):
    Image.fromarray(np.full((4, 4), 1000, dtype=np.uint16)).save(tmp_path / "a.png")
    apart = SandboxedDecoder((0, 2000))
    found = np.asarray(apart(tmp_path / "a.png"))
    assert np.array_equal(found, np.asarray(open_image(tmp_path / "a.png", (0, 2000))))
    child = apart._child
    child.stdin.close()
    assert child.wait(timeout=60) == 0
    child.stdout.close()


def test_the_child_waits_for_the_next_picture_as_long_as_it_takes(picture, tmp_path, monkeypatch):
    """Its time is for one picture, and not for what is between two."""
    (tmp_path / "sitecustomize.py").write_text(
        "import signal\n"
        "def alarm(seconds):\n"
        f"    print(seconds, file=open({str(tmp_path / 'alarms')!r}, 'a'))\n"
        "signal.alarm = alarm\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    with closing(SandboxedDecoder()) as apart:
        apart(picture)
        apart(picture)
    assert (tmp_path / "alarms").read_text().split() == ["120", "0"] * 2
