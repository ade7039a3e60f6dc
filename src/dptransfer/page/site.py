"""Write the folder of a page: the model as ONNX graphs, the scripts that run them, card and hashes.

index.html, app.mjs, ...        the page, which may load nothing but what is beside it
model.json                      what the scripts must know, and the hashes of what they load
encoder.onnx, words.onnx        the encoder, and its own labels where it has some
head.onnx                       rows to scores and probabilities, as `dptransfer export` writes it
ort*.mjs, ort*.wasm             onnxruntime-web
card.html, LICENSES.txt         the privacy and model card; licences of the parts
sw.js                           keeps all of this, checked by hash, for the next visit
serve.py                        a server for this machine: browsers load no scripts from file:// addresses
"""

from __future__ import annotations

import hashlib
import json
from base64 import b64encode
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from string import Template
from tempfile import TemporaryDirectory

from dptransfer._version import __version__
from dptransfer.base.document_html import escape_html, head_html
from dptransfer.base.types import JsonObject
from dptransfer.data.atomic_files import replaced_whole, write_synced
from dptransfer.encoders import Encoder
from dptransfer.encoders.registry import ENCODERS
from dptransfer.errors import ReleaseError
from dptransfer.exact.evaluation_layout import chance_slack
from dptransfer.methods.replan import verify_release
from dptransfer.page.encoder_files import EncoderFiles, encoder_files
from dptransfer.page.ort_runtime import WebRuntime
from dptransfer.privacy import typeset
from dptransfer.release import PrivateClassifier, export_onnx, read_release, release_digest
from dptransfer.release.bundle import require_directory
from dptransfer.release.card import model_summary
from dptransfer.release.prediction_sets import threshold_for

COVERAGES = (0.8, 0.9, 0.95, 0.99)
"""For which a page shows prediction sets."""
_SURE = 0.95
_PLAIN = (
    "app.mjs",
    "icon.svg",
    "model.mjs",
    "page.css",
    "picture.mjs",
    "pillow.mjs",
    "rows.mjs",
    "wordpiece.mjs",
)
_NOT_STORED = ("sw.js", "serve.py")
_WHAT = {"image": "Pictures", "text": "Texts", "rows": "Rows"}


def write_page(
    release: Path,
    out: Path,
    encoder: Encoder | None,
    runtime: WebRuntime,
    *,
    overwrite: bool = False,
) -> list[Path]:
    """Write the folder, whole or not at all; the files in it.

    Args:
        release: the release directory, or 'hf:OWNER/NAME'; it must verify.
        out: the folder to make.
        encoder: what makes the model's rows; None for a model that is given rows.
        runtime: onnxruntime-web.
        overwrite: replace a page that is there.

    Raises:
        ReleaseError: the release does not verify, or something else than a page is in the way.
        DataError: no browser can run the encoder.
    """
    release = require_directory(release)
    found = verify_release(release)
    if found.outcome == "failed":
        raise ReleaseError(
            f"A page is made of a release that verifies; '{release}' does not: {', '.join(found.failures)}. "
            f"See dptransfer verify {release}"
        )
    model = read_release(release)
    _require_free(out, overwrite)
    made = EncoderFiles({}, {"kind": "rows"}) if encoder is None else encoder_files(encoder)
    contents = made.files | runtime.files
    contents["head.onnx"] = _head_graph(model, release)
    about = _about(model) | made.facts
    about["files"] = {
        name: {"bytes": len(content), "sha256": _digest(content)} for name, content in contents.items()
    }
    contents["model.json"] = json.dumps(about, ensure_ascii=False, indent=1).encode()
    contents |= {name: _asset(name).encode() for name in _PLAIN}
    contents["serve.py"] = _asset("serve.py.txt").encode()
    contents["style.css"] = files("dptransfer.base").joinpath("style.css").read_bytes()
    contents["card.html"] = (release / "card.html").read_bytes()
    contents["LICENSES.txt"] = _filled("LICENSES.txt", encoder=_licence(encoder), runtime=runtime.version)
    contents["index.html"] = _index(model, release_digest(release), about)
    contents["sw.js"] = _service_worker(contents)
    with replaced_whole(out) as fresh:
        for name, content in contents.items():
            write_synced(fresh / name, content)
    return sorted(out / name for name in contents)


def _require_free(out: Path, overwrite: bool) -> None:
    if out.exists() and not (overwrite and out.is_dir() and (out / "sw.js").is_file()):
        raise ReleaseError(
            f"A page is written to a new folder; '{out}' exists. Choose another, or pass --overwrite to "
            "replace a page."
        )


def _head_graph(model: PrivateClassifier, release: Path) -> bytes:
    """From rows to probabilities, in float64 all through, as Python computes."""
    digest = release_digest(release)
    with TemporaryDirectory() as folder:
        file = Path(folder) / "head.onnx"
        export_onnx(model, file, precision="float64", digest=digest)
        return file.read_bytes()


def _about(model: PrivateClassifier) -> JsonObject:
    """What the scripts must know of the classifier."""
    counts = None if model.charged is None else model.charged.counts
    return {
        "classes": [str(name) for name in model.classes],
        "width": model.dimension,
        "columns": None if model.facts.columns is None else list(model.facts.columns),
        "temperature": model.head.temperature,
        "slack": chance_slack(len(model.classes)),
        "sets": [
            {"coverage": own, "confidence": _SURE, "threshold": threshold_for(counts, own, _SURE)}
            for own in COVERAGES
            if counts is not None
        ],
        "words": None,
    }


def _index(model: PrivateClassifier, digest: str, about: JsonObject) -> bytes:
    summary = model_summary(model)
    shown = tuple((name, said) for name, said in summary.about if name.startswith(("Classes", "Accuracy")))
    head = replace(summary, sentence=typeset(model.guarantee.in_short), about=shown)
    names, width = about["columns"], about["width"]
    columns = f"{width} numbers" if names is None else ", ".join(names[:8]) + " …" * (len(names) > 8)
    scores = "Scores are a ranking and not calibrated."
    if model.calibration is not None:
        scores = f"Scores are probabilities, {model.calibration.words}."
    if about["sets"]:
        scores += f" Each coverage of the prediction sets holds with a confidence of {_SURE:.0%}."
    return _filled(
        "index.html",
        title=escape_html(head.title),
        head=head_html(head),
        what=_WHAT[about["kind"]],
        columns=escape_html(columns),
        promise=f"{_WHAT[about['kind']]} do not leave this computer: the model runs in your browser.",
        scores=escape_html(scores),
        version=__version__,
        digest=digest[:16],
    )


def _service_worker(contents: dict[str, bytes]) -> bytes:
    hashes = {name: _digest(content) for name, content in contents.items() if name not in _NOT_STORED}
    listed = json.dumps(hashes, sort_keys=True, indent=1)
    return _filled("sw.js", files=listed, digest=hashlib.sha256(listed.encode()).hexdigest()[:16])


def _licence(encoder: Encoder | None) -> str:
    if encoder is None:
        return "No encoder."
    name = encoder.identity.name
    stated = ENCODERS.find(name).licence if name in ENCODERS.names else "ask its authors"
    return f"Encoder {name} (encoder.onnx): {stated}."


def _digest(content: bytes) -> str:
    """SHA-256 as browsers want it."""
    return b64encode(hashlib.sha256(content).digest()).decode()


def _asset(name: str) -> str:
    return files("dptransfer.page").joinpath("assets", name).read_text(encoding="utf-8")


def _filled(name: str, **values: str) -> bytes:
    return Template(_asset(name)).substitute(values).encode()
