"""The public pool: letters and digits that the demo draws itself, so it is nobody's data.

Each picture is one character in one of the fonts that matplotlib carries, with its own size, weight,
slant, turn, wobble, blur and place, all from one seeded generator. It is made the way the private digits
were made, which their authors published: a black-and-white picture of 32 × 32 points, of which every
block of 4 × 4 is replaced by the number of points that are on (Alpaydin and Kaynak 1998). Nothing here
looks at a private picture.
"""

from __future__ import annotations

import string
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFilter, ImageFont

from dptransfer.base.types import PixelArray
from dptransfer_lab.demo.sets import PictureSet

FONTS = (
    "DejaVuSans DejaVuSans-Bold DejaVuSans-Oblique DejaVuSans-BoldOblique DejaVuSansMono DejaVuSansMono-Bold "
    "DejaVuSansMono-Oblique DejaVuSansMono-BoldOblique DejaVuSerif DejaVuSerif-Bold DejaVuSerif-Italic "
    "DejaVuSerif-BoldItalic STIXGeneral STIXGeneralBol STIXGeneralItalic STIXGeneralBolIta "
    "cmr10 cmb10 cmss10 cmti10 cmtt10"
).split()

_DRAWN = 64  # side of the canvas a character is first drawn on
_FONT_SIZE = 38
_POINTS = 32  # side of the black-and-white picture
_BLOCK = 4  # points per block and side
_CLEAR = 255 // (_BLOCK * _BLOCK)  # brightness of one point


def draw_glyphs(count: int, *, rng: np.random.Generator, digit_share: float = 0.5) -> PictureSet:
    """Draw `count` pictures of characters, light on dark, the same ones for the same generator.

    Each is named by its number, character and font; its label is its digit, its caption the character.

    Args:
        count: how many.
        rng: every choice comes from it.
        digit_share: share of digits; the rest are letters.
    """
    fonts = _fonts()
    is_digit = rng.random(count) < digit_share
    digits = np.where(is_digit, rng.integers(len(string.digits), size=count), -1)
    letters = rng.integers(len(string.ascii_letters), size=count)
    chosen = rng.integers(len(FONTS), size=count)
    characters = tuple(
        string.ascii_letters[letter] if digit < 0 else str(digit)
        for digit, letter in zip(digits, letters, strict=True)
    )
    pairs = list(zip(characters, chosen, strict=True))
    pixels = np.stack([_draw(character, fonts[font], rng) for character, font in pairs])
    names = tuple(f"glyph-{i:05d}-{character}-{FONTS[font]}" for i, (character, font) in enumerate(pairs))
    return PictureSet(pixels, names, digits, characters)


def _fonts() -> list[ImageFont.FreeTypeFont]:
    import matplotlib

    folder = Path(matplotlib.get_data_path()) / "fonts" / "ttf"
    return [ImageFont.truetype(str(folder / f"{name}.ttf"), _FONT_SIZE) for name in FONTS]


def _draw(character: str, font: ImageFont.FreeTypeFont, rng: np.random.Generator) -> PixelArray:
    canvas = Image.new("L", (_DRAWN, _DRAWN), 0)
    weight = int(rng.integers(0, 2))
    ImageDraw.Draw(canvas).text(
        (_DRAWN / 2, _DRAWN / 2), character, fill=255, font=font, anchor="mm", stroke_width=weight
    )
    turned = canvas.transform(canvas.size, Image.Transform.AFFINE, _affine(rng), Image.Resampling.BILINEAR)
    waved = turned.transform(canvas.size, Image.Transform.MESH, _wobble(rng), Image.Resampling.BILINEAR)
    box = waved.getbbox() or (0, 0, _DRAWN, _DRAWN)
    soft = _placed(waved.crop(box), rng).filter(ImageFilter.GaussianBlur(rng.uniform(0.0, 0.8)))
    points = np.asarray(soft) > rng.uniform(70, 150)
    blocks = points.reshape(_POINTS // _BLOCK, _BLOCK, _POINTS // _BLOCK, _BLOCK)
    shades: PixelArray = (blocks.sum(axis=(1, 3)) * _CLEAR).astype(np.uint8)
    return shades


def _affine(rng: np.random.Generator) -> tuple[float, ...]:
    """Slant and turn about the middle of the canvas."""
    slant, turn = rng.normal(0.0, 0.18), rng.normal(0.0, 0.10)
    cos, sin = np.cos(turn), np.sin(turn)
    a, b, c, d = cos, sin + slant, -sin, cos
    middle = _DRAWN / 2
    return (a, b, middle - a * middle - b * middle, c, d, middle - c * middle - d * middle)


def _wobble(rng: np.random.Generator) -> list[tuple[tuple[int, int, int, int], tuple[float, ...]]]:
    """A 4 × 4 mesh whose inner corners are moved a little, as a hand would."""
    cells = 4
    side = _DRAWN // cells
    steps = side * np.arange(cells + 1.0)
    corners = np.stack(np.meshgrid(steps, steps), axis=-1)
    corners[1:-1, 1:-1] += rng.normal(0.0, 2.5, (cells - 1, cells - 1, 2))
    mesh = []
    for row, column in np.ndindex(cells, cells):
        box = (column * side, row * side, (column + 1) * side, (row + 1) * side)
        quad = corners[[row, row + 1, row + 1, row], [column, column, column + 1, column + 1]]
        mesh.append((box, tuple(quad.ravel().tolist())))
    return mesh


def _placed(character: Image.Image, rng: np.random.Generator) -> Image.Image:
    """The character at its own size and place on the black-and-white picture's grid."""
    height = int(rng.integers(28, _POINTS + 1))
    width = round(character.width * height / character.height * rng.uniform(0.9, 1.3))
    size = (min(max(width, 6), _POINTS), height)
    picture = Image.new("L", (_POINTS, _POINTS), 0)
    room = (_POINTS - size[0], _POINTS - size[1])
    across, down = (int(np.clip(round(r / 2 + rng.normal(0, 1.5)), 0, r)) for r in room)
    picture.paste(character.resize(size, Image.Resampling.BILINEAR), (across, down))
    return picture
