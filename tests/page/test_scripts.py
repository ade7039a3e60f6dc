"""The page's scripts, run in Node: pixels as Pillow's, tokens as tokenizers', rows as they were pasted."""

import base64
import io
import json
import subprocess
from importlib.resources import files

import numpy as np
import pytest
from PIL import Image, ImageOps

from dptransfer.encoders.torch_module import ResizeCrop
from dptransfer.page.encoder_files import height_first
from dptransfer.sources.decode import picture_of

ASSETS = files("dptransfer.page").joinpath("assets")
FILTERS = {"nearest": 0, "lanczos": 1, "bilinear": 2, "bicubic": 3, "box": 4, "hamming": 5}
SIZES = [  # up, down, one side alone, both ways at once, a strip, a single pixel
    ((100, 70), (160, 160)),
    ((320, 241), (160, 160)),
    ((160, 300), (160, 160)),
    ((61, 83), (83, 61)),
    ((83, 61), (61, 83)),
    ((997, 13), (32, 64)),
    ((1, 1), (4, 3)),
]


@pytest.fixture(scope="module")
def script(node):
    """Run code with a value `given`; what it returns."""

    def run(imports, code, given):
        text = f'import {{ text }} from "node:stream/consumers";\n{imports.replace("./", f"{ASSETS}/")}\n'
        text += f"const given = JSON.parse(await text(process.stdin));\nconsole.log(JSON.stringify({code}));"
        command = [node, "--input-type=module", "-e", text]
        ended = subprocess.run(command, input=json.dumps(given), capture_output=True, text=True, timeout=120)
        assert ended.returncode == 0, ended.stderr
        return json.loads(ended.stdout)

    return run


@pytest.fixture(scope="module")
def pillow(script):
    """Apply a function of pillow.mjs to pictures."""

    def apply(code, cases):
        imports = 'import * as pillow from "./pillow.mjs";\n'
        imports += "const bytes = (p) => ({ ...p, data: Buffer.from(p.data, 'base64') });\n"
        imports += "const sent = (p) => ({ ...p, data: Buffer.from(p.data).toString('base64') });"
        given = [{"picture": as_json(one), **facts} for one, facts in cases]
        found = script(imports, f"given.map((one) => sent(({code})(bytes(one.picture), one)))", given)
        return [
            np.frombuffer(base64.b64decode(one["data"]), np.uint8).reshape(one["height"], one["width"], -1)
            for one in found
        ]

    return apply


def as_json(pixels):
    height, width, channels = pixels.shape
    data = base64.b64encode(np.ascontiguousarray(pixels).tobytes()).decode()
    return {"data": data, "width": width, "height": height, "channels": channels}


def noise(width, height, channels=3):
    """Sharp edges, at which filters overshoot, and everything between."""
    rng = np.random.default_rng(width * height)
    edges = rng.choice([0, 255], (height, width, channels))
    return np.where(rng.random((height, width, 1)) < 0.5, edges, rng.integers(0, 256, edges.shape)).astype(
        np.uint8
    )


def test_pixels_are_resized_as_pillow_does(pillow):
    cases = [
        (noise(*before), {"width": width, "height": height, "filter": name, "order": height_first()})
        for name in FILTERS
        for before, (width, height) in SIZES
    ]
    found = pillow(
        "(p, { width, height, filter, order }) => pillow.resize(p, width, height, filter, order)", cases
    )
    for (pixels, told), one in zip(cases, found, strict=True):
        expected = Image.fromarray(pixels).resize((told["width"], told["height"]), FILTERS[told["filter"]])
        assert np.array_equal(one, np.asarray(expected)), told


def test_the_order_of_passes_shows(pillow):
    told = {"width": 83, "height": 61, "filter": "bicubic"}
    cases = [(noise(61, 83), {**told, "order": order}) for order in ("never", "shrinking")]
    first, second = pillow("(p, o) => pillow.resize(p, o.width, o.height, o.filter, o.order)", cases)
    assert not np.array_equal(first, second)


def test_the_middle_is_cut_out_as_the_library_does(pillow):
    framing = {"height": 64, "width": 48, "resample": "bilinear", "shortest": 81}
    cases = [
        (noise(*size), {"framing": {**framing, "heightFirst": height_first()}})
        for size in ((300, 200), (200, 301), (50, 77), (90, 50))
    ]
    for (pixels, _), one in zip(
        cases, pillow("(p, { framing }) => pillow.frame(p, framing)", cases), strict=True
    ):
        assert np.array_equal(one, ResizeCrop(**framing)(Image.fromarray(pixels)))


def test_pictures_are_turned_as_their_orientation_says(pillow):
    cases = [(noise(7, 5), {"orientation": orientation}) for orientation in range(10)]
    found = pillow("(p, { orientation }) => pillow.upright(p, orientation)", cases)
    for (pixels, told), one in zip(cases, found, strict=True):
        picture = Image.fromarray(pixels)
        picture.getexif()[274] = told["orientation"]
        assert np.array_equal(one, np.asarray(ImageOps.exif_transpose(picture)))


def test_every_alpha_of_every_level_is_laid_over_white_as_pillow_does(pillow):
    levels, alphas = np.meshgrid(np.arange(256, dtype=np.uint8), np.arange(256, dtype=np.uint8))
    pixels = np.stack([levels, levels[::-1], 255 - levels, alphas], axis=-1)
    (found,) = pillow("(p) => pillow.overWhite(p)", [(pixels, {})])
    assert np.array_equal(found, np.asarray(picture_of(Image.fromarray(pixels))))


def saved(form, orientation=None, mode="RGB", xmp=None, **how):
    picture, file = Image.new(mode, (4, 3)), io.BytesIO()
    if orientation is not None:
        exif = Image.Exif()
        exif[274] = orientation
        how["exif"] = exif
    if xmp is not None:
        how["xmp"] = f'<x tiff:Orientation="{xmp}"/>'.encode()
    picture.save(file, form, **how)
    return base64.b64encode(file.getvalue()).decode()


@pytest.mark.parametrize("form", ["JPEG", "PNG", "WEBP"])
def test_the_orientation_in_a_file_is_found(script, form):
    given = [saved(form), *(saved(form, orientation) for orientation in (1, 6, 8))]
    code = "given.map((one) => inspect(Buffer.from(one, 'base64')))"
    found = script('import { inspect } from "./picture.mjs";', code, given)
    assert [one["orientation"] for one in found] == [1, 1, 6, 8]
    assert {one["type"] for one in found} == {f"image/{form.lower()}"}


@pytest.mark.parametrize("form", ["JPEG", "WEBP"])
def test_exif_comes_before_xmp(script, form):
    given = [saved(form, xmp=3), saved(form, 6, xmp=3)]
    code = "given.map((one) => inspect(Buffer.from(one, 'base64')).orientation)"
    assert script('import { inspect } from "./picture.mjs";', code, given) == [3, 6]


def test_files_that_browsers_read_otherwise_are_refused(script):
    given = [saved("JPEG", mode="CMYK"), saved("PNG", mode="I;16"), saved("TIFF"), "", "/9j/", "iVBORw0KGgo="]
    code = "given.map((one) => { try { return inspect(Buffer.from(one, 'base64')).type; } "
    code += "catch { return 'no'; } })"
    found = script('import { inspect } from "./picture.mjs";', code, given)
    assert found == ["no", "no", "no", "no", "image/jpeg", "image/png"]  # cut ones are the decoder's business


WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "!", ",", "'", "-", "a", "the", "un", "##want", "##ed"]
WORDS += [
    "run",
    "##ning",
    "cafe",
    "strasse",
    "ß",
    "##s",
    "日",
    "本",
    "3",
    "##5",
    ".",
    "€",
    "σ",
    "##ς",
    "##σ",
    "i",
    "##̇",
]
TEXTS = [
    "Unwanted running, the CAFÉ!",
    "",
    "  \t\r\n ",
    "日本 a日b",
    "[SEP] the[MASK]a [sep]",
    "ΣΑΣ σς ΣΣ İ straße ßs",
    "3.5€ don't-run",
    "run " * 400,
    "a" * 101,
    "a" * 100,
    "\u200ba\u00adb\ufffd\x00c",
    "\u00a0the\u3000a\u2028",
    "🙂 the",
]


def test_texts_become_tokens_as_tokenizers_makes_them(script):
    tokenizers = pytest.importorskip("tokenizers")
    numbers = {word: number for number, word in enumerate(WORDS)}
    theirs = tokenizers.Tokenizer(tokenizers.models.WordPiece(numbers, unk_token="[UNK]"))
    theirs.normalizer = tokenizers.normalizers.BertNormalizer()
    theirs.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    theirs.post_processor = tokenizers.processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    theirs.add_special_tokens(WORDS[:5])
    theirs.enable_truncation(32)
    imports = 'import { tokenizer } from "./wordpiece.mjs";\nconst of = (words) => tokenizer(words, 32);'
    found = script(imports, "given[1].map(of(given[0]))", [WORDS, TEXTS])
    assert found == [theirs.encode(text).ids for text in TEXTS]
    assert len({tuple(one) for one in found}) > 8


PASTED = [
    ("1,2,3\n4,5,-6e-1\n", None, [[1, 2, 3], [4, 5, -0.6]]),
    ("1\t2\t3", None, [[1, 2, 3]]),
    (" 1 2  3 \r\n\r\n4 5 6", None, [[1, 2, 3], [4, 5, 6]]),
    ('a;"b";c\n1;2;.5', None, [[1, 2, 0.5]]),
    ("c,x,a,b\n3,9,1,2", ["a", "b", "c"], [[1, 2, 3]]),
    ("1,2,3", ["a", "b", "c"], [[1, 2, 3]]),
    ("1,2", None, "Line 1 must have 3 numbers"),
    ("1,2,3\n1,,3", None, "Line 2, value 2"),
    ("1,2,nan", None, "no row below"),
    ("a,b\n1,2", ["a", "b", "c"], "lacks 1 of the columns: c"),
    ("a,b\n1,2", None, "must have 3 columns"),
    (" \n", None, "There is no row"),
]


def test_pasted_rows_are_read_or_refused_with_the_line(script):
    code = (
        "given.map(([text, columns]) => { try { return readRows(text, 3, columns).rows.map((r) => [...r]); } "
    )
    code += "catch (problem) { return problem.message; } })"
    found = script('import { readRows } from "./rows.mjs";', code, [case[:2] for case in PASTED])
    for (*_, expected), one in zip(PASTED, found, strict=True):
        assert one == expected if isinstance(expected, list) else expected in one
