"""Pictures of every depth and colour space, hostile ones among them: each right to 1/255, or refused."""

import os
import signal
import struct
import warnings
from contextlib import closing, suppress

import numpy as np
import pytest
from PIL import Image

from contracts.opened_pictures import greys, refused, seen
from contracts.picture_files import COLOUR, COLOUR_ALPHA, GREY, GREY_ALPHA, PALETTE, png, tiff
from dptransfer.errors import DataError
from dptransfer.sources import decode
from dptransfer.sources.decode import SandboxedDecoder, open_image, problem_of, without_warnings

SIXTEEN = np.array([[0, 32768, 65535]], np.uint16)
TWELVE = np.array([[0, 2048, 4095]], np.uint16)
SIGNED = np.array([[-1000, 0, 1000]], np.int16)
UNIT = np.array([[0, 0.5, 1]], np.float32)


@pytest.mark.parametrize("bits", [1, 4, 8])
def test_greys_of_few_bits_reach_from_black_to_white(tmp_path, bits):
    most = 2**bits - 1
    shades = np.array([[0, most // 2, most]], np.uint8)
    right = [0, 255 * (most // 2) // most, 255]
    few = None if bits == 8 else bits
    assert greys(png(tmp_path / "a.png", shades, bits)) == right
    assert greys(tiff(tmp_path / "a.tif", shades, bits=few)) == right
    assert greys(tiff(tmp_path / "b.tif", shades, bits=few, photometric=0)) == [255 - one for one in right]
    assert greys(tmp_path / "a.png", (0, 7)) == right  # a declared range is for more than bytes


@pytest.mark.parametrize("order", ["<", ">"])
def test_greys_of_sixteen_bits_are_scaled_and_not_cut_off(tmp_path, order):
    assert greys(png(tmp_path / "a.png", SIXTEEN, 16)) == [0, 127, 255]
    assert greys(tiff(tmp_path / "a.tif", SIXTEEN, order=order)) == [0, 127, 255]
    assert greys(tiff(tmp_path / "b.tif", SIXTEEN, order=order, t259=(3, 8))) == [0, 127, 255]  # deflated
    if order == "<":  # of the other Pillow knows none
        assert greys(tiff(tmp_path / "c.tif", SIXTEEN, photometric=0)) == [255, 127, 0]
        assert greys(tiff(tmp_path / "d.tif", TWELVE, bits=12)) == [0, 127, 255]


@pytest.mark.parametrize("maximum", [1000, 65535])
def test_formats_that_tell_their_white_are_believed(tmp_path, maximum):
    shades = np.array([[0, maximum // 2, maximum]], np.uint16)
    header = f"P5 3 1 {maximum}\n".encode()
    (tmp_path / "a.pgm").write_bytes(header + shades.astype(">u2").tobytes())
    for declared in (None, (0, 7)):
        assert greys(tmp_path / "a.pgm", declared) == [0, 127, 255]
    Image.fromarray(SIXTEEN.repeat(16, 0).repeat(16, 1)).save(tmp_path / "a.jp2")
    assert sorted(set(greys(tmp_path / "a.jp2"))) == [0, 127, 255]


@pytest.mark.parametrize("most", [1023, 16383])
def test_few_bits_in_sixteen_are_not_black_but_refused_or_read_as_declared(tmp_path, most):
    shades = np.array([[0, most // 2, most]], np.uint16)
    for file in (png(tmp_path / "a.png", shades, 16), tiff(tmp_path / "a.tif", shades)):
        refused(file, "--grey-range")
        assert greys(file, (0, most)) == [0, 127, 255]
        assert max(greys(file, (0, 65535))) == most // 257  # the owner has said so
    assert greys(tiff(tmp_path / "b.tif", shades, t341=(3, most))) == [0, 127, 255]  # it tells itself
    colour = np.stack([shades] * 3, axis=2)
    refused(png(tmp_path / "b.png", colour, 16, COLOUR), "eight bits")
    refused(tiff(tmp_path / "c.tif", colour, photometric=2), "eight bits")
    refused(tiff(tmp_path / "d.tif", colour, photometric=2, t259=(3, 8)), "eight bits")


@pytest.mark.parametrize("order", ["<", ">"])
def test_signed_long_and_floating_greys_need_a_range(tmp_path, order):
    file = tiff(tmp_path / "s16.tif", SIGNED, order=order)
    refused(file, "signed.*--grey-range")
    assert greys(file, (-1000, 1000)) == [0, 127, 255]
    assert greys(tiff(tmp_path / "t.tif", SIGNED, order=order, t340=(8, -1000), t341=(8, 1000))) == [
        0,
        127,
        255,
    ]
    assert greys(tmp_path / "t.tif", (-1000, 0)) == [0, 255, 255]  # what the owner says comes first
    assert greys(tiff(tmp_path / "s32.tif", SIGNED.astype("i4"), order=order), (-1000, 1000)) == [0, 127, 255]
    assert greys(tiff(tmp_path / "s8.tif", np.array([[-128, 0, 127]], "i1"), order=order), (-128, 127)) == [
        0,
        128,
        255,
    ]
    refused(tmp_path / "s8.tif", "signed")
    refused(tiff(tmp_path / "f.tif", UNIT, order=order), "floating point.*--grey-range")
    assert greys(tmp_path / "f.tif", (0, 1)) == [0, 127, 255]
    assert greys(tiff(tmp_path / "i.tif", UNIT, order=order, photometric=0), (0, 1)) == [255, 127, 0]
    assert greys(tiff(tmp_path / "g.tif", UNIT, order=order, t340=(11, 0), t341=(11, 1))) == [0, 127, 255]
    odd = np.array([[np.nan, -np.inf, np.inf]], np.float32)
    assert greys(tiff(tmp_path / "n.tif", odd, order=order), (0, 1)) == [0, 0, 255]
    refused(tiff(tmp_path / "e.tif", UNIT, order=order, t340=(11, 1), t341=(11, 1)), "--grey-range")
    if order == "<":
        long = np.array([[0, 2**31, 2**32 - 1]], np.uint32)
        assert greys(tiff(tmp_path / "u32.tif", long), (0, 2**32 - 1)) == [0, 127, 255]


def test_several_pages_are_refused_and_of_an_animation_the_first_is_taken(tmp_path):
    refused(tiff(tmp_path / "a.tif", np.zeros((2, 2), np.uint8), pages=2), "a file of its own")
    frames = [Image.new("L", (2, 2), shade) for shade in (200, 10)]
    for name in ("a.gif", "a.png", "a.webp"):
        frames[0].save(tmp_path / name, save_all=True, append_images=frames[1:])
        assert abs(seen(tmp_path / name) - 200).max() <= 1


def test_transparency_is_laid_over_white(tmp_path):
    red_clear, red = [[255, 0, 0, 0]], [[255, 0, 0, 255]]
    assert seen(png(tmp_path / "a.png", [[*red_clear, *red]], 8, COLOUR_ALPHA))[0].tolist() == [
        [255] * 3,
        [255, 0, 0],
    ]
    deep = np.array([[[0, 65535], [32768, 65535], [0, 0], [0, 32768]]])
    assert greys(png(tmp_path / "b.png", deep, 16, GREY_ALPHA)) == [0, 128, 255, 127]
    assert greys(png(tmp_path / "c.png", [[0, 7, 200]], 8, GREY, (b"tRNS", struct.pack(">H", 7)))) == [
        0,
        255,
        200,
    ]
    clear = (b"tRNS", struct.pack(">H", 32768))
    assert greys(png(tmp_path / "d.png", SIXTEEN, 16, GREY, clear)) == [0, 255, 255]


@pytest.mark.parametrize("bits", [1, 8])
def test_palettes_with_and_without_transparency(tmp_path, bits):
    colours = (b"PLTE", bytes([10, 20, 30, 200, 100, 50]))
    plain = png(tmp_path / "a.png", [[0, 1]], bits, PALETTE, colours)
    assert seen(plain)[0].tolist() == [[10, 20, 30], [200, 100, 50]]
    half = png(tmp_path / "b.png", [[0, 1]], bits, PALETTE, colours, (b"tRNS", b"\x00\x80"))
    assert abs(seen(half)[0] - [[255] * 3, [227, 177, 152]]).max() <= 1
    Image.fromarray(np.array([[[10, 20, 30], [200, 100, 50]]], np.uint8)).quantize(2).save(tmp_path / "c.gif")
    assert abs(seen(tmp_path / "c.gif")[0] - [[10, 20, 30], [200, 100, 50]]).max() <= 1


def test_colour_spaces(tmp_path):
    colour = np.array([[[200, 100, 50], [0, 0, 0], [255, 255, 255]]], np.uint8)
    deep = colour.astype(np.uint16) * 257
    assert abs(seen(png(tmp_path / "a.png", deep, 16, COLOUR)) - colour).max() <= 1
    assert abs(seen(tiff(tmp_path / "a.tif", deep, photometric=2)) - colour).max() <= 1
    assert abs(seen(tiff(tmp_path / "b.tif", deep, photometric=2, t259=(3, 8))) - colour).max() <= 1
    assert (seen(tiff(tmp_path / "c.tif", colour, photometric=2)) == colour).all()
    inks = np.concatenate([255 - colour, np.zeros((1, 3, 1), np.uint8)], axis=2)
    assert abs(seen(tiff(tmp_path / "d.tif", inks, photometric=5)) - colour).max() <= 1
    flat = np.broadcast_to(np.array([200, 100, 50], np.uint8), (16, 16, 3))
    Image.fromarray(flat).convert("CMYK").save(tmp_path / "e.jpg", quality=100)  # inverted, as Adobe does
    Image.fromarray(flat).save(tmp_path / "f.jpg", quality=100, subsampling=0)  # in YCbCr
    for name in ("e.jpg", "f.jpg"):
        assert abs(seen(tmp_path / name) - flat).max() <= 2  # of which JPEG has its part


TURNED = {2: np.fliplr, 5: lambda x: x.swapaxes(0, 1), 6: lambda x: np.rot90(x, -1), 8: np.rot90}
"""What shows a picture upright that was stored under each orientation."""


@pytest.mark.parametrize("orientation", TURNED)
def test_every_orientation_is_made_upright_once(tmp_path, orientation):
    stored = np.arange(6, dtype=np.uint8).reshape(2, 3) * 50
    tag = Image.Exif()
    tag[274] = orientation
    block = np.kron(stored, np.ones((8, 8), np.uint8))
    Image.fromarray(block).save(tmp_path / "a.jpg", exif=tag, quality=100)
    assert abs(seen(tmp_path / "a.jpg")[..., 0] - TURNED[orientation](block)).max() <= 2
    Image.fromarray(stored).save(tmp_path / "a.png", exif=tag)
    tiff(tmp_path / "a.tif", stored, t274=(3, orientation))
    deep = stored.astype(np.uint16) * 257
    Image.fromarray(deep).save(tmp_path / "b.png", exif=tag)
    tiff(tmp_path / "b.tif", deep, t274=(3, orientation))
    tiff(tmp_path / "c.tif", stored.astype(np.float32), t274=(3, orientation), t341=(11, 255))
    for name in ("a.png", "a.tif", "b.png", "b.tif", "c.tif"):
        assert (seen(tmp_path / name)[..., 0] == TURNED[orientation](stored)).all(), name


def test_a_file_that_is_no_image_or_is_cut_short_raises(tmp_path):
    noise = np.random.default_rng(0).integers(0, 256, (64, 64, 3), dtype=np.uint8)
    Image.fromarray(noise).save(tmp_path / "whole.png")
    (tmp_path / "half.png").write_bytes((tmp_path / "whole.png").read_bytes()[:3000])
    (tmp_path / "text.png").write_text("hello")
    (tmp_path / "empty.png").touch()
    open_image(tmp_path / "whole.png")
    for name in ("half.png", "text.png", "missing.png", "empty.png"):
        with pytest.raises(OSError, match=r"truncated|identify|No such"):
            open_image(tmp_path / name)
    for name in ("text.png", "missing.png", "empty.png"):
        assert problem_of(tmp_path / name).startswith("It cannot be read")


def test_a_large_file_is_read_in_parts_to_the_same_picture(tmp_path, monkeypatch):
    noise = Image.fromarray(np.random.default_rng(0).integers(0, 256, (64, 64, 3), dtype=np.uint8))
    files = [tmp_path / name for name in ("a.png", "a.jpg", "a.tif", "a.webp")]
    for file in files:
        noise.save(file, **({"compression": "tiff_deflate"} if file.suffix == ".tif" else {}))
    at_once = [seen(file) for file in files]
    monkeypatch.setattr(decode, "_AT_ONCE", 256)
    assert all(np.array_equal(seen(file), known) for file, known in zip(files, at_once, strict=True))


def test_twenty_thousand_by_twenty_thousand_is_refused_before_it_is_read(tmp_path):
    """The header alone says so: the files hold next to nothing."""
    side = 20_000
    deep = png(tmp_path / "a.png", [[0]], 1, size=(side, side))
    for file in (deep, tiff(tmp_path / "a.tif", np.zeros((1, 1), np.uint8), t256=(4, side), t257=(4, side))):
        with pytest.raises(Image.DecompressionBombError):
            open_image(file)
        assert problem_of(file) == "It cannot be read (DecompressionBombError)."


def test_nothing_is_said_while_pictures_are_opened(tmp_path, recwarn, caplog, capfd):
    """Not by a warning (a palette), not by Pillow's log (217 channels), not by libtiff (damaged data)."""
    Image.new("P", (2, 2)).save(tmp_path / "a.png", transparency=b"\0" * 4)
    tiff(tmp_path / "b.tif", np.zeros((2, 2), np.uint8), t277=(3, 217))
    damaged = bytearray(tiff(tmp_path / "c.tif", SIXTEEN, t259=(3, 8)).read_bytes())
    damaged[10:14] = b"\xff" * 4
    (tmp_path / "c.tif").write_bytes(damaged)

    def look():
        for name in ("a.png", "b.tif", "c.tif"):
            with suppress(Exception):
                open_image(tmp_path / name)

    with without_warnings():
        look()
    assert not recwarn.list
    assert not caplog.records
    assert capfd.readouterr().err == ""
    with warnings.catch_warnings(action="ignore"):
        look()
    assert "samples per pixel" in caplog.text  # what is set aside comes back


def test_what_is_no_file_is_refused_and_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe.png")
    (tmp_path / "device.png").symlink_to("/dev/zero")
    (tmp_path / "folder.png").mkdir()
    for name in ("pipe.png", "device.png", "folder.png"):
        assert "must be a file" in problem_of(tmp_path / name)
        with pytest.raises(DataError, match="must be a file"):
            open_image(tmp_path / name)


def test_a_declared_range_that_would_whiten_a_picture_is_refused_before_the_work(tmp_path):
    deep = np.random.default_rng(0).integers(0, 65536, (20, 20)).astype(np.uint16)
    Image.fromarray(deep).save(tmp_path / "deep.png")
    Image.fromarray(deep // 16).save(tmp_path / "twelve.png")
    Image.fromarray((deep // 256).astype(np.uint8)).save(tmp_path / "bytes.png")
    refused(tmp_path / "deep.png", "declared grey range", (0, 4095))
    assert len(greys(tmp_path / "twelve.png", (0, 4095))) == 20
    assert len(greys(tmp_path / "bytes.png", (0, 127))) == 20  # bytes are read as ever


def test_a_range_that_the_file_states_is_taken_at_its_word(tmp_path):
    bright = np.full((4, 4), 60_000, np.uint16)
    assert set(greys(tiff(tmp_path / "a.tif", bright, t340=(3, 0), t341=(3, 4095)))) == {255}
    refused(tmp_path / "a.tif", "declared grey range", (0, 4095))


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


def test_the_child_imports_nothing_from_here_and_has_its_time_for_one_picture_alone(tmp_path, monkeypatch):
    """We may be in a folder of pictures from anywhere. The child ends when nobody asks any more."""
    (tmp_path / "sitecustomize.py").write_text(
        "import signal\n"
        "def alarm(seconds):\n"
        f"    print(seconds, file=open({str(tmp_path / 'alarms')!r}, 'a'))\n"
        "signal.alarm = alarm\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    (tmp_path / "here" / "PIL.py").write_text("open('taken', 'w')")
    Image.fromarray(np.full((4, 4), 1000, dtype=np.uint16)).save(tmp_path / "a.png")
    apart = SandboxedDecoder((0, 2000))
    for _ in range(2):
        found = np.asarray(apart(tmp_path / "a.png"))
        assert np.array_equal(found, np.asarray(open_image(tmp_path / "a.png", (0, 2000))))
    child = apart._child
    apart._line.close()
    assert child.wait(timeout=60) == 0
    assert (tmp_path / "alarms").read_text().split() == ["120", "0"] * 2
    assert not (tmp_path / "here" / "taken").exists()
