"""Write the folder of a page: the model as ONNX graphs, the scripts that run them, card and hashes.

index.html, app.mjs, ...        the page, which may load nothing but what is beside it
model.json                      what the scripts must know, and the hashes of what they load
encoder.onnx, words.onnx        the encoder, and its own labels where it has some
head.onnx                       rows to scores and probabilities, as `dptransfer export` writes it
ort*.mjs, ort*.wasm             onnxruntime-web
card.html, LICENSES.txt         the privacy and model card; licences of the parts
sw.js                           keeps all of this, checked by hash, for the next visit
serve.py                        a server for this machine: browsers load no scripts from file:// addresses
self_test.mjs                   runs the rest in Node, for `comparison`
"""

from __future__ import annotations

import hashlib
import json
from base64 import b64encode
from importlib.resources import files
from pathlib import Path
from string import Template

from dptransfer._version import __version__
from dptransfer.base.document_html import escape_html, head_html
from dptransfer.base.types import JsonObject
from dptransfer.data.atomic_files import replaced_whole
from dptransfer.encoders import Encoder
from dptransfer.encoders.registry import ENCODERS
from dptransfer.errors import ReleaseError
from dptransfer.exact.evaluation_layout import chance_slack
from dptransfer.methods.replan import verify_release
from dptransfer.page.encoder_files import write_encoder
from dptransfer.page.ort_runtime import WebRuntime
from dptransfer.release import PrivateClassifier, export_onnx, read_release, release_digest
from dptransfer.release.bundle import require_directory
from dptransfer.release.card import model_summary
from dptransfer.release.prediction_sets import threshold_for

COVERAGES = (0.8, 0.9, 0.95, 0.99)
"""For which a page shows prediction sets."""
_SURE = 0.95
_NOT_STORED = ("sw.js", "serve.py", "self_test.mjs")  # by the service worker


def write_page(
    release: Path, out: Path, encoder: Encoder | None, runtime: WebRuntime, *, overwrite: bool = False
) -> None:
    """Write the folder, whole or not at all.

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
    if out.exists() and not (overwrite and (out / "sw.js").is_file()):
        raise ReleaseError(
            f"A page is written to a new folder; '{out}' exists. Choose another, or pass --overwrite to "
            "replace a page."
        )
    model, digest = read_release(release), release_digest(release)
    with replaced_whole(out) as fresh:
        facts = {"kind": "rows"} if encoder is None else write_encoder(encoder, fresh)
        export_onnx(model, fresh / "head.onnx", precision="float64", digest=digest)
        for name, content in runtime.files.items():
            (fresh / name).write_bytes(content)
        about = _about(model) | facts | {"files": {one.name: _told(one) for one in fresh.iterdir()}}
        (fresh / "model.json").write_text(json.dumps(about, ensure_ascii=False, indent=1), encoding="utf-8")
        (fresh / "card.html").write_bytes((release / "card.html").read_bytes())
        _write_assets(fresh, model, digest, _licence(encoder, runtime))


def _about(model: PrivateClassifier) -> JsonObject:
    """What the scripts must know of the classifier."""
    counts = None if model.charged is None else model.charged.counts
    return {
        "classes": [str(name) for name in model.classes],
        "width": model.dimension,
        "columns": None if model.facts.columns is None else list(model.facts.columns),
        "temperature": model.head.temperature,
        "scores": "a ranking and not calibrated" if model.calibration is None else model.calibration.words,
        "slack": chance_slack(len(model.classes)),
        "sets": [
            {"coverage": own, "confidence": _SURE, "threshold": threshold_for(counts, own, _SURE)}
            for own in COVERAGES
            if counts is not None
        ],
        "words": None,
    }


def _write_assets(site: Path, model: PrivateClassifier, digest: str, licence: str) -> None:
    """Scripts and styles as they are; the page and its service worker with what they must say."""
    summary = model_summary(model)
    values = {
        "title": escape_html(summary.title),
        "head": head_html(summary),
        "licence": licence,
        "version": __version__,
        "digest": digest[:16],
    }
    kept = [files("dptransfer.base").joinpath("style.css")]
    for asset in (*kept, *files("dptransfer.page").joinpath("assets").iterdir()):
        text = asset.read_text(encoding="utf-8")
        if asset.name.endswith((".html", "LICENSES.txt")):
            text = Template(text).substitute(values)
        (site / asset.name.removesuffix(".in")).write_text(text, encoding="utf-8")
    hashes = {one.name: _told(one)["sha256"] for one in site.iterdir() if one.name not in _NOT_STORED}
    listed = json.dumps(hashes, sort_keys=True, indent=1)
    worker, name = Template((site / "sw.js").read_text(encoding="utf-8")), hashlib.sha256(listed.encode())
    stored = worker.substitute(files=listed, digest=name.hexdigest()[:16])
    (site / "sw.js").write_text(stored, encoding="utf-8")


def _licence(encoder: Encoder | None, runtime: WebRuntime) -> str:
    told = f"ONNX Runtime Web {runtime.version} (ort*): MIT License, below."
    if encoder is None:
        return told
    name = encoder.identity.name
    stated = ENCODERS.find(name).licence if name in ENCODERS.names else "ask its authors"
    return f"The encoder {name} (encoder.onnx): {stated}.\n\n{told}"


def _told(file: Path) -> JsonObject:
    """The size, and the SHA-256 as browsers want it."""
    content = file.read_bytes()
    return {"bytes": len(content), "sha256": b64encode(hashlib.sha256(content).digest()).decode()}
