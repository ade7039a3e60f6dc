"""Small pictures for reports."""

import io

import numpy as np
from PIL import Image

from dptransfer.sources.thumbnails import SIDE, thumbnails


def test_thumbnails_are_small_upright_and_without_what_the_file_says_beside(tmp_path):
    picture = Image.new("RGB", (600, 200), (200, 30, 90))
    exif = Image.Exif()
    exif[274], exif[315] = 6, "Dr Who"  # turned, and its author
    picture.save(tmp_path / "a.jpg", exif=exif, comment=b"ward 7")
    (found,) = thumbnails([tmp_path / "a.jpg"])
    small = Image.open(io.BytesIO(found))
    assert (small.format, small.size) == ("JPEG", (SIDE // 3, SIDE))
    assert not small.getexif()
    assert b"Dr Who" not in found
    assert b"ward 7" not in found


def test_what_is_transparent_is_white_and_what_cannot_be_opened_is_empty(tmp_path):
    Image.new("RGBA", (9, 9), (0, 0, 0, 0)).save(tmp_path / "clear.png")
    (tmp_path / "damaged.png").write_bytes(b"no picture")
    clear, damaged, missing = thumbnails(
        [tmp_path / name for name in ("clear.png", "damaged.png", "none.png")]
    )
    assert np.asarray(Image.open(io.BytesIO(clear))).min() == 255
    assert (damaged, missing) == (b"", b"")
