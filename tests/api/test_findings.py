from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from contracts.dicom_files import dicom
from dptransfer.accounting import mu_for
from dptransfer.api.between import SAME_PICTURE, content_of
from dptransfer.api.checked_examples import Examples
from dptransfer.api.findings import DARK, FEW, Finding, advice, look_at, looks_of

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "check.md"


def test_every_finding_is_on_the_page_about_the_command_and_says_what_to_do():
    page = PAGE.read_text()
    for key, said in advice().items():
        assert said.title in page
        assert said.why.endswith(".")
        assert said.remedy
        assert Finding(key, "private", 1).advice is said


def test_the_constants_are_those_of_their_derivation():
    assert round(64**0.5 / mu_for(1.0, 1e-5)) == FEW
    assert 4095 // 257 < DARK


@pytest.fixture
def picture():
    small = np.random.default_rng(0).integers(0, 256, (8, 8, 3), dtype=np.uint8)
    return Image.fromarray(small).resize((128, 96), Image.Resampling.BICUBIC)


def test_the_digest_is_of_the_pixels_and_not_of_the_file(tmp_path, picture):
    picture.save(tmp_path / "a.png")
    picture.save(tmp_path / "b.bmp")
    picture.rotate(180).save(tmp_path / "c.png")
    first, second, turned = looks_of([tmp_path / name for name in ("a.png", "b.bmp", "c.png")], "picture")
    assert first.digest == second.digest != turned.digest


@pytest.mark.parametrize(
    ("mode", "form", "bits"),
    [
        ("1", "black and white", 1),
        ("L", "grey", 8),
        ("P", "palette", 8),
        ("RGBA", "RGBA", 8),
        ("I;16", "grey", 16),
    ],
)
def test_the_form_is_that_of_the_file(tmp_path, picture, mode, form, bits):
    sixteen = Image.fromarray(np.asarray(picture.convert("L")).astype(np.uint16) * 257)
    (sixteen if bits == 16 else picture.convert(mode)).save(tmp_path / "a.png")
    look = look_at(tmp_path / "a.png")
    assert (look.form, look.bits) == (f"{form}, {bits} bits", bits)


def test_a_dicom_file_tells_the_bits_that_it_stores(tmp_path):
    pytest.importorskip("pydicom")
    samples = np.random.default_rng(0).integers(0, 4096, (12, 12)).astype(np.uint16)
    look = look_at(dicom(tmp_path / "a.dcm", samples, BitsStored=12))
    assert (look.form, look.brightest > 200) == ("DICOM MONOCHROME2, 12 bits", True)


def test_greys_are_read_by_the_declared_range(tmp_path):
    twelve_bits = np.random.default_rng(0).integers(0, 4096, (12, 12)).astype(np.uint16)
    Image.fromarray(twelve_bits).save(tmp_path / "a.png")
    assert "16-bit" in look_at(tmp_path / "a.png").refused
    assert look_at(tmp_path / "a.png", (0, 4095)).brightest > 200


@pytest.mark.parametrize("damage", ["cut", "empty", "gone"])
def test_a_damaged_file_is_unreadable_and_raises_nothing(tmp_path, picture, damage):
    file = tmp_path / "a.jpg"
    picture.save(file)
    if damage == "gone":
        file.unlink()
    else:
        file.write_bytes(file.read_bytes()[: 300 if damage == "cut" else 0])
    assert (look_at(file).form, look_at(file).digest) == ("", b"")


@pytest.mark.parametrize(("ending", "how"), [("jpg", {"quality": 40}), ("webp", {"quality": 60})])
def test_a_picture_that_was_saved_again_is_near_and_another_is_far(tmp_path, picture, ending, how):
    picture.save(tmp_path / "a.png")
    picture.save(tmp_path / f"b.{ending}", **how)
    picture.transpose(Image.Transpose.FLIP_LEFT_RIGHT).save(tmp_path / "c.png")
    files = (tmp_path / "a.png", tmp_path / f"b.{ending}", tmp_path / "c.png")
    looks = looks_of(files, "picture")
    points = content_of(Examples("private", "", "images", 3, images=files), looks).points
    far = np.sqrt(np.mean((points - points[0]) ** 2, axis=1))
    assert looks[0].digest != looks[1].digest
    assert far[1] < SAME_PICTURE < far[2]


def test_faint_pictures_are_not_all_alike(tmp_path):
    rng = np.random.default_rng(0)
    for name in "ab":
        faint = rng.integers(120, 124, (16, 16, 3), dtype=np.uint8)
        Image.fromarray(faint).save(tmp_path / f"{name}.png")
    files = (tmp_path / "a.png", tmp_path / "b.png")
    points = content_of(Examples("private", "", "images", 2, images=files), looks_of(files, "picture")).points
    assert np.sqrt(np.mean((points[0] - points[1]) ** 2)) > SAME_PICTURE
