"""A page in Chromium: pixels, rows and labels as Python's, no request, offline, keys, widths."""

import base64
import csv
import io
import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import dptransfer as dpt
from dptransfer.encoders import OnnxEncoder, get_encoder
from dptransfer.page import write_page
from dptransfer.release import read_release
from dptransfer.sources.decode import picture_of

pytestmark = pytest.mark.slow


class Served:
    """A folder behind its own serve.py, which can be stopped."""

    def __init__(self, site):
        command = [sys.executable, str(site / "serve.py"), "0"]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.url = self.process.stdout.readline().strip()

    def stop(self):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()


@pytest.fixture(scope="module")
def serve():
    started = []

    def run(site):
        started.append(Served(site))
        return started[-1]

    yield run
    for one in started:
        one.stop()


@pytest.fixture(scope="module")
def pictures_site(release, encoder, runtime, tmp_path_factory):
    out = tmp_path_factory.mktemp("pictures") / "site"
    write_page(release, out, encoder, runtime)
    return out


@pytest.fixture(scope="module")
def rows_site(bare_release, runtime, tmp_path_factory):
    out = tmp_path_factory.mktemp("rows") / "site"
    write_page(bare_release, out, None, runtime)
    return out


@pytest.fixture
def opened(chromium):
    """A page that is ready, with what went wrong in it and what it asked for since then."""
    contexts = []

    def open_page(url, **how):
        contexts.append(chromium.new_context(**how))
        page = contexts[-1].new_page()
        page.problems, page.requests = [], []
        page.on("console", lambda told: page.problems.append(told.text))
        page.on("pageerror", lambda problem: page.problems.append(str(problem)))
        page.add_init_script(
            "addEventListener('securitypolicyviolation', (e) => console.error(e.violatedDirective))"
        )
        page.goto(url)
        page.wait_for_selector("html[data-state=ready][data-offline=yes]")
        contexts[-1].on("request", lambda asked: page.requests.append(asked.url))
        return page

    yield open_page
    for one in contexts:
        one.close()


def noise(width, height, channels=3):
    return np.random.default_rng(width + height).integers(0, 256, (height, width, channels), dtype=np.uint8)


def smooth(width, height, mode="RGB"):
    return Image.fromarray(noise(9, 7)).resize((width, height), Image.Resampling.BICUBIC).convert(mode)


def files():
    """Pictures as cameras and programs save them, by name."""

    def saved(picture, form, orientation=None, **how):
        if orientation:
            how["exif"] = Image.Exif()
            how["exif"][274] = orientation
        file = io.BytesIO()
        picture.save(file, form, **how)
        return file.getvalue()

    grey_alpha = Image.fromarray(noise(31, 20, 2), "LA")
    palette = smooth(40, 31).quantize(7)
    yield "up.png", saved(smooth(13, 9), "PNG")
    yield "noise.png", saved(Image.fromarray(noise(500, 301)), "PNG")
    yield "grey.png", saved(smooth(50, 60, "L"), "PNG")
    yield "black-and-white.png", saved(smooth(50, 60, "1"), "PNG")
    yield "alpha.png", saved(Image.fromarray(noise(64, 33, 4)), "PNG")
    yield "grey-alpha.png", saved(grey_alpha, "PNG")
    yield "palette.png", saved(palette, "PNG")
    yield "transparent-palette.png", saved(palette, "PNG", transparency=3)
    yield (
        "transparent-colour.png",
        saved(smooth(40, 31).quantize(4).convert("RGB"), "PNG", transparency=(1, 2, 3)),
    )
    yield "turned.png", saved(smooth(40, 31), "PNG", 6)
    yield "picture.gif", saved(palette, "GIF", transparency=2)
    yield "lossless.webp", saved(Image.fromarray(noise(64, 33, 4)), "WEBP", lossless=True, exact=True)
    yield "lossy.webp", saved(smooth(321, 200), "WEBP", 8, quality=70)
    yield "fine.jpg", saved(smooth(640, 481), "JPEG", quality=95, subsampling=0)
    yield "progressive.jpg", saved(smooth(1023, 771), "JPEG", progressive=True)
    yield "grey.jpg", saved(smooth(200, 301, "L"), "JPEG")
    for orientation in range(1, 9):
        yield f"turned-{orientation}.jpg", saved(smooth(61, 43), "JPEG", orientation)


RUN = """async ([files, framing]) => {
  const { decode } = await import('./picture.mjs');
  const { frame } = await import('./pillow.mjs');
  const found = [];
  for (const file of files) {
    const picture = await decode(Uint8Array.from(atob(file), (one) => one.charCodeAt(0)));
    found.push([picture, frame(picture, framing)].map(({ data, width, height }) =>
      ({ data: btoa(Array.from(data, (one) => String.fromCharCode(one)).join('')), width, height })));
  }
  return found;
}"""


def test_pixels_are_pillows_whatever_the_file(pictures_site, serve, opened):
    page = opened(serve(pictures_site).url)
    framing = json.loads((pictures_site / "model.json").read_text())["framing"]
    framing |= {"height": 64, "width": 48}
    given = dict(files())
    found = page.evaluate(RUN, [[base64.b64encode(one).decode() for one in given.values()], framing])
    for (name, content), made in zip(given.items(), found, strict=True):
        picture = picture_of(content)
        for one, expected in zip(
            made, (picture, picture.resize((48, 64), Image.Resampling.BICUBIC)), strict=True
        ):
            pixels = np.frombuffer(base64.b64decode(one["data"]), np.uint8).astype(np.int64)
            pixels = pixels.reshape(one["height"], one["width"], 3)
            assert pixels.shape == (expected.height, expected.width, 3), name
            assert np.abs(pixels - np.asarray(expected)).max() == 0, name


ROWS = """async (files) => {
  const about = await (await fetch('model.json')).json();
  const ort = await import('./ort.wasm.min.mjs'); // the page has set it up
  const { openModel } = await import('./model.mjs');
  const { decode } = await import('./picture.mjs');
  const model = await openModel(ort, about, async (name) => (await fetch(name)).arrayBuffer());
  const found = [];
  for (const file of files) {
    const picture = await decode(Uint8Array.from(atob(file), (one) => one.charCodeAt(0)));
    found.push(Array.from(await model.rowOfPicture(picture)));
  }
  return found;
}"""


def test_rows_of_efficientnet_are_pythons(runtime, serve, opened, tmp_path):
    encoder = get_encoder("efficientnet-lite0", runtime="onnx")
    data = dpt.PrivateEmbeddings(np.eye(1280)[[0, 1] * 20], [0, 1] * 20, classes=2, encoder=encoder.identity)
    budget, ledger = dpt.Budget(epsilon=8, delta=1e-5), dpt.Ledger.in_memory()
    release = dpt.methods.MeanPrototypes().fit(data, budget=budget, ledger=ledger).save(tmp_path / "model")
    write_page(release, tmp_path / "site", encoder, runtime)
    page = opened(serve(tmp_path / "site").url)
    contents = list(files())[:8]
    found = page.evaluate(ROWS, [base64.b64encode(one).decode() for _, one in contents])
    expected = encoder.encode([picture_of(one) for _, one in contents])
    assert np.abs(expected).max() > 1
    assert np.abs(np.array(found) - expected).max() < 1e-4


def answers(page, count):
    page.wait_for_selector(f"#results > li:nth-child({count})")
    return page.locator("#results > li")


def test_a_picture_gets_pythons_label_scores_and_set(pictures_site, serve, opened, model, tmp_path):
    names = ["noise.png", "turned-6.jpg", "alpha.png"]
    contents = dict(files())
    for name in names:
        (tmp_path / name).write_bytes(contents[name])
    page = opened(serve(pictures_site).url)
    page.set_input_files("#pictures", [tmp_path / name for name in names])
    shown = answers(page, 3)
    rows = [contents[name] for name in names]
    rows = OnnxEncoder(pictures_site / "encoder.onnx").encode([picture_of(one) for one in rows])
    labels, chances = model.predict(rows), model.predict_proba(rows)
    sets = model.predict_sets(rows, coverage=0.9).labels
    for place, name in enumerate(names):
        item = shown.nth(place)
        assert item.locator(".name").inner_text() == name
        assert item.locator("h3").inner_text() == labels[place]
        assert item.locator(".number").first.inner_text() == f"{100 * chances[place].max():.1f}%"
        assert ", ".join(sets[place]) in item.locator(".also").first.inner_text() or len(sets[place]) == 3
    with page.expect_download() as saved:
        page.click("#save")
    told = list(csv.DictReader(io.StringIO(Path(saved.value.path()).read_text())))
    assert [(one["input"], one["label"]) for one in told] == list(zip(names, labels, strict=True))
    assert [json.loads(one["set"]) for one in told] == [list(map(str, own)) for own in sets]
    assert not page.problems


DROP = """([file, kind]) => {
  const bytes = Uint8Array.from(atob(file), (one) => one.charCodeAt(0)), given = new DataTransfer();
  given.items.add(new File([bytes], 'one.png', { type: 'image/png' }));
  const how = { bubbles: true, cancelable: true };
  dispatchEvent(kind === 'drop' ? new DragEvent(kind, { ...how, dataTransfer: given })
    : new ClipboardEvent(kind, { ...how, clipboardData: given }));
}"""


@pytest.mark.parametrize("kind", ["drop", "paste"])
def test_pictures_may_be_dropped_and_pasted(pictures_site, serve, opened, kind):
    page = opened(serve(pictures_site).url)
    page.evaluate(DROP, [base64.b64encode(dict(files())["noise.png"]).decode(), kind])
    assert answers(page, 1).locator(".name").inner_text() == "one.png"


def test_nothing_is_asked_of_anybody_after_loading(pictures_site, serve, opened, tmp_path):
    page = opened(serve(pictures_site).url)
    (tmp_path / "one.png").write_bytes(dict(files())["noise.png"])
    page.set_input_files("#pictures", [tmp_path / "one.png"] * 2)
    answers(page, 2)
    page.select_option("#coverage", label="99%")
    page.click("#clear")
    assert page.requests == []


def test_a_script_cannot_send_anything_elsewhere(pictures_site, serve, opened):
    page, other = opened(serve(pictures_site).url), serve(pictures_site).url
    outcome = "(url) => fetch(url, {mode: 'no-cors'}).then(() => 'sent', () => 'refused')"
    assert page.evaluate(outcome, page.url) == "sent"
    assert page.evaluate(outcome, other) == "refused"
    assert any("connect-src" in told for told in page.problems)


def test_it_works_offline_after_the_first_visit(pictures_site, serve, opened, tmp_path):
    served = serve(pictures_site)
    page = opened(served.url)
    served.stop()
    page.reload()
    page.wait_for_selector("html[data-state=ready]")
    (tmp_path / "one.png").write_bytes(dict(files())["noise.png"])
    page.set_input_files("#pictures", tmp_path / "one.png")
    assert answers(page, 1).locator("h3").inner_text()


def test_a_file_that_was_changed_is_neither_run_nor_kept(pictures_site, serve, chromium, tmp_path):
    site = Path(shutil.copytree(pictures_site, tmp_path / "site"))
    content = bytearray((site / "head.onnx").read_bytes())
    content[-1] ^= 1
    (site / "head.onnx").write_bytes(content)
    context = chromium.new_context()
    page = context.new_page()
    page.goto(serve(site).url)
    page.wait_for_selector("html[data-state=failed]")
    assert page.locator("#pictures").is_disabled()
    context.close()


def test_rows_are_pasted_and_answered_by_keys_alone(rows_site, bare_release, serve, opened):
    page = opened(serve(rows_site).url)
    page.focus("#table")
    page.keyboard.insert_text("0,1,0,0\n1,0,0,0\n")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    shown = answers(page, 2)
    labels = read_release(bare_release).predict(np.eye(4)[[1, 0]])
    assert [shown.nth(place).locator("h3").inner_text() for place in (0, 1)] == [str(one) for one in labels]
    page.fill("#table", "1,2,3")
    page.click("[data-kind=rows] button")
    answers(page, 3)
    assert shown.first.get_attribute("class") == "failed"
    assert not page.problems


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [400, 900, 1600])
def test_it_fits_every_width_and_can_be_read(pictures_site, serve, opened, tmp_path, scheme, width):
    page = opened(serve(pictures_site).url, color_scheme=scheme, viewport={"width": width, "height": 800})
    (tmp_path / "one.png").write_bytes(dict(files())["noise.png"])
    page.set_input_files("#pictures", tmp_path / "one.png")
    answers(page, 1)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    for where in ("#status", "h3", ".name", ".drop span", "#results th", "button"):
        assert page.evaluate(CONTRAST, where) >= 4.5, where


CONTRAST = """(where) => {
  const parts = (colour) => colour.match(/[\\d.]+/g).map(Number);
  const light = (colour) => {
    const [r, g, b] = parts(colour).slice(0, 3).map((v) => v / 255)
      .map((v) => (v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const element = [...document.querySelectorAll(where)].find((one) => one.offsetParent);
  let under = element;
  while (under && (parts(getComputedStyle(under).backgroundColor)[3] ?? 1) === 0) under = under.parentElement;
  const one = light(getComputedStyle(element).color), other = light(getComputedStyle(under).backgroundColor);
  return (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
}"""


def test_a_new_model_takes_the_place_of_the_one_that_was_kept(
    rows_site, release, encoder, serve, opened, tmp_path, runtime
):
    site = Path(shutil.copytree(rows_site, tmp_path / "site"))
    page = opened(serve(site).url)
    assert page.locator("[data-kind=rows]").is_visible()
    write_page(release, site, encoder, runtime, overwrite=True)
    page.reload()  # shows what was kept, and fetches the new one
    page.wait_for_selector("#newer:not([hidden])")
    page.reload()
    page.wait_for_selector("html[data-state=ready]")
    assert page.locator("[data-kind=image]").is_visible()
    assert len(page.evaluate("caches.keys()")) == 1
