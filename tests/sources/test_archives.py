import gc
import io
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path, PurePosixPath

import pytest
from PIL import Image

from dptransfer.data import Columns
from dptransfer.errors import DataError
from dptransfer.sources import PrivateImages, archives, find_images
from dptransfer.sources.archives import TemporaryFolder, archive_in, unpack

FILES = (
    "cat/ann/1.png",
    "cat/ann/2.png",
    "dog/bob/1.png",
    "dog/notes.txt",
    ".hidden/3.png",
    "__MACOSX/4.png",
)
ENDINGS = frozenset({".png"})


pytestmark = pytest.mark.usefixtures("place")


def picture(colour=(9, 9, 9)):
    stream = io.BytesIO()
    Image.new("RGB", (2, 2), colour).save(stream, "PNG")
    return stream.getvalue()


def packed(path, files=FILES, prefix="", folders=("eel/",)):
    """A zip or tar of these names, and of empty folders."""
    if path.suffix == ".zip":
        with zipfile.ZipFile(path, "w") as archive:
            for name in (*files, *folders):
                archive.writestr(f"{prefix}{name}", b"" if name.endswith("/") else picture())
        return path
    with tarfile.open(path, "w:gz" if path.name.endswith("gz") else "w") as archive:
        for name in (*files, *folders):
            info = tarfile.TarInfo(f"{prefix}{name}".rstrip("/"))
            info.type = tarfile.DIRTYPE if name.endswith("/") else tarfile.REGTYPE
            info.size = 0 if name.endswith("/") else len(picture())
            archive.addfile(info, io.BytesIO(picture()))
    return path


@pytest.mark.parametrize(("name", "own"), [("photos.zip", ""), ("photos.tar.gz", "photos/"), ("A.TGZ", "")])
def test_an_archive_stands_for_its_folder(tmp_path, name, own):
    found = find_images(packed(tmp_path / name, prefix=own), Columns(person="folder"))
    assert found.sources() == ("cat/ann/1.png", "cat/ann/2.png", "dog/bob/1.png")
    assert found.classes == ("cat", "dog", "eel")  # an empty folder declares a class
    assert (found.labels.tolist(), found.people.tolist()) == ([0, 0, 1], [0, 0, 1])
    assert all(path.read_bytes() == picture() for path in found.paths)


def test_pictures_are_there_as_long_as_somebody_holds_them(tmp_path, place):
    found = find_images(packed(tmp_path / "p.zip"))
    path = found.paths[0]
    private = PrivateImages(found, resolution=2)
    del found
    gc.collect()
    assert private.pixels[0].max() == 9
    assert path.stat().st_mtime_ns == (tmp_path / "p.zip").stat().st_mtime_ns
    del private
    gc.collect()
    assert list(place.iterdir()) == []


def test_a_path_may_lead_into_an_archive(tmp_path):
    path = packed(tmp_path / "p.zip", ["train/a/1.png", "train/b/1.png", "test/a/1.png"], "p/", ())
    with pytest.raises(DataError, match=r"like splits .*p\.zip/train"):
        find_images(path)
    found = find_images(path / "train")
    assert found.classes == ("a", "b")
    assert len([*found.held.path.rglob("*.png")]) == 2  # and nothing else was unpacked
    assert find_images(path / "p" / "train").classes == ("a", "b")
    assert archive_in(path / "train") == (path, PurePosixPath("train"))
    assert archive_in(tmp_path / "other") is None
    for inside in ("nothing", "../..", "train/../.."):
        with pytest.raises(DataError, match="no folder"):
            find_images(path / inside)


def test_nothing_leads_out_of_the_place(tmp_path, place):
    odd = ["../out.png", "/tmp/out.png", "a/../../out.png", "c:/out.png", "..\\out.png", "a/\\..\\..\\o.png"]
    for name in ("odd.zip", "odd.tar"):
        found = find_images(packed(tmp_path / name, [*odd, "cat/1.png"], folders=("../out/", "a/../../b/")))
        assert found.sources() == ("cat/1.png",)
        inside = [path for path in place.rglob("*") if path.name not in (".lock", "1.png", "cat", "all")]
        assert [path for path in inside if not path.name.startswith("dptransfer-unpacked-")] == []
    assert not Path("/tmp/out.png").exists()


def test_links_and_devices_are_passed_over(tmp_path):
    with tarfile.open(tmp_path / "l.tar", "w") as archive:
        for number, kind in enumerate((tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE)):
            info = tarfile.TarInfo(f"a/{number}.png")
            info.type, info.linkname = kind, "/etc/passwd"
            archive.addfile(info)
        info = tarfile.TarInfo("a/4.png")
        info.size = len(picture())
        archive.addfile(info, io.BytesIO(picture()))
    with zipfile.ZipFile(tmp_path / "l.zip", "w") as archive:
        link = zipfile.ZipInfo("a/1.png")
        link.external_attr = 0o120777 << 16
        archive.writestr(link, "/etc/passwd")
        archive.writestr("a/4.png", picture())
    for name in ("l.tar", "l.zip"):
        assert find_images(tmp_path / name).sources() == ("a/4.png",)


def test_what_does_not_fit_is_refused_and_too_large_a_picture_cannot_be_read(tmp_path, monkeypatch):
    path = packed(tmp_path / "p.zip")
    with monkeypatch.context() as patch:
        patch.setattr(archives, "_LARGEST", len(picture()) - 1)
        found = find_images(path)
        assert [one.stat().st_size for one in found.paths] == [0, 0, 0]
    with monkeypatch.context() as patch:
        patch.setattr(archives, "_MOST", 3)
        with pytest.raises(DataError, match="must fit"):
            find_images(path)
    free = type("Usage", (), {"free": archives._RESERVE + 2 * len(picture())})
    monkeypatch.setattr("shutil.disk_usage", lambda path: free)
    with pytest.raises(DataError, match="must fit"):
        find_images(path)


def test_no_more_is_written_than_was_claimed(tmp_path):
    """A size in the directory of a zip that is smaller than what its bytes unpack to."""
    packed(tmp_path / "p.zip", ["a/1.png"], folders=())
    content = (tmp_path / "p.zip").read_bytes()
    claimed = len(picture()).to_bytes(4, "little")
    assert content.count(claimed) >= 2
    (tmp_path / "p.zip").write_bytes(content.replace(claimed, (5).to_bytes(4, "little")))
    try:
        folder, _ = unpack(tmp_path / "p.zip", PurePosixPath(), ENDINGS)
    except DataError:
        return
    assert all(path.stat().st_size <= 5 for path in folder.rglob("*.png"))


@pytest.mark.parametrize("name", ["p.zip", "p.tar", "p.tar.gz"])
def test_damage_is_one_error(tmp_path, place, name):
    path = packed(tmp_path / name)
    whole = path.read_bytes()
    between = min(512 + 512, len(whole) // 2)  # after a header and a picture: where a tar may break off
    for content in (whole[: len(whole) // 3], whole[:between], b"", b"not an archive", os.urandom(300)):
        path.write_bytes(content)
        with pytest.raises(DataError):
            find_images(path)
    gc.collect()
    assert list(place.iterdir()) == []


def test_a_tar_that_leads_back_ends_in_an_error(tmp_path):
    path = packed(tmp_path / "p.tar", ["a/1.png", "a/notes.txt"], folders=())
    content = bytearray(path.read_bytes())
    header = content.rindex(b"a/notes.txt")
    content[header + 124 : header + 136] = (2**96 - 512).to_bytes(12, "big")  # the size: -512
    content[header + 148 : header + 156] = b" " * 8
    checksum = sum(content[header : header + 512])
    content[header + 148 : header + 156] = b"%06o\0 " % checksum
    path.write_bytes(bytes(content))
    with pytest.raises(DataError, match="must be complete"):
        find_images(path)


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize("again", ["cat/1.png", "cat//1.png"])
@pytest.mark.parametrize("kind", ["zip", "tar"])
def test_two_files_of_one_name_are_refused_for_readers_differ_in_which_they_take(tmp_path, kind, again):
    path = tmp_path / f"a.{kind}"
    if kind == "zip":
        with zipfile.ZipFile(path, "w") as archive:
            for name in ("cat/1.png", "dog/1.png", again):
                archive.writestr(name, picture())
    else:
        with tarfile.open(path, "w") as archive:
            for name in ("cat/1.png", "dog/1.png", again):
                info = tarfile.TarInfo(name)
                info.size = len(picture())
                archive.addfile(info, io.BytesIO(picture()))
    with pytest.raises(DataError, match="one name") as refusal:
        unpack(path, PurePosixPath(), ENDINGS)
    assert "1.png" not in str(refusal.value)


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
    locked = archives.try_lock

    def too_late(lock):
        if not taken:
            (folder,) = place.iterdir()
            taken.append(folder)
            shutil.rmtree(folder)
        return locked(lock)

    monkeypatch.setattr(archives, "try_lock", too_late)
    held = TemporaryFolder()
    assert taken
    assert held.path.is_dir()
    assert held.path not in taken
