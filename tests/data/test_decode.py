import numpy as np
import pytest
from PIL import Image

from dptransfer.data.decode import open_image


def test_the_orientation_tag_is_applied(tmp_path):
    image = Image.new("RGB", (8, 4))
    tag = Image.Exif()
    tag[274] = 6
    image.save(tmp_path / "turned.jpg", exif=tag)
    image.save(tmp_path / "plain.jpg")
    assert open_image(tmp_path / "turned.jpg").size == (4, 8)
    assert open_image(tmp_path / "plain.jpg").size == (8, 4)


def test_transparency_is_laid_over_white(tmp_path):
    Image.new("RGBA", (2, 2), (255, 0, 0, 0)).save(tmp_path / "clear.png")
    Image.new("RGBA", (2, 2), (255, 0, 0, 255)).save(tmp_path / "solid.png")
    assert open_image(tmp_path / "clear.png").getpixel((0, 0)) == (255, 255, 255)
    assert open_image(tmp_path / "solid.png").getpixel((0, 0)) == (255, 0, 0)
    palette = Image.new("P", (2, 2), 0)
    palette.save(tmp_path / "palette.png", transparency=b"\x00" * 4)
    assert open_image(tmp_path / "palette.png").getpixel((0, 0)) == (255, 255, 255)


def test_sixteen_bit_greys_are_scaled_and_not_cut_off(tmp_path):
    Image.fromarray(np.array([[0, 257 * 10, 65535]], np.uint16)).save(tmp_path / "deep.png")
    assert np.asarray(open_image(tmp_path / "deep.png"))[0, :, 0].tolist() == [0, 10, 255]


@pytest.mark.parametrize("mode", ["1", "L", "P", "CMYK", "RGB"])
def test_every_common_mode_becomes_rgb(tmp_path, mode):
    Image.new(mode, (2, 2)).save(tmp_path / "a.tiff")
    assert open_image(tmp_path / "a.tiff").mode == "RGB"


def test_a_file_that_is_no_image_or_is_cut_short_raises(tmp_path):
    noise = np.random.default_rng(0).integers(0, 256, (64, 64, 3), dtype=np.uint8)
    Image.fromarray(noise).save(tmp_path / "whole.png")
    (tmp_path / "half.png").write_bytes((tmp_path / "whole.png").read_bytes()[:3000])
    (tmp_path / "text.png").write_text("hello")
    open_image(tmp_path / "whole.png")
    for name in ("half.png", "text.png", "missing.png"):
        with pytest.raises(OSError, match=r"truncated|identify|No such file"):
            open_image(tmp_path / name)
