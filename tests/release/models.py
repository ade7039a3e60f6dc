"""Small classifiers made by hand, and releases of them that were tampered with."""

import hashlib
import json
from pathlib import Path

import numpy as np

from dptransfer.accounting import guarantee_of
from dptransfer.data.embeddings import PublicEmbeddings
from dptransfer.data.facts import EncoderIdentity, Facts
from dptransfer.data.vocabulary import Vocabulary
from dptransfer.exact.feature_map import FittedSideBySide, UnitNorm
from dptransfer.exact.public_map import FittedSpan, PublicMap
from dptransfer.exact.vocabulary_map import FittedVocabularyMap
from dptransfer.privacy import BestOfManyEvent, GaussianEvent, Relation, SampledGaussianEvent, SelectionEvent
from dptransfer.release.classifier import PrivateClassifier, Provenance
from dptransfer.release.heads import (
    AverageHead,
    CosineHead,
    EuclideanHead,
    LinearHead,
    MeanCosineHead,
    QuadraticHead,
)

DIMENSION = 7
CLASSES = ("cat", "dog", "eel")
ENCODER = EncoderIdentity("tiny-net", "ab" * 32, "rgb 8, mean pool")
NOISE = GaussianEvent(4.0, Relation.ADD_REMOVE, sensitivity=1.0, label="class sums", numeric_epsilon=1e-9)
CHOICE = SelectionEvent(0.5, Relation.ADD_REMOVE, True, "exponential", label="prototypes")
ROUNDS = GaussianEvent(20.0, Relation.ADD_REMOVE, label="gradients", times=28, numeric_delta=1e-25)
SAMPLED = SampledGaussianEvent(1.1, 0.02, 300, Relation.ADD_REMOVE, label="batches", numeric_delta=2e-25)
TUNED = BestOfManyEvent(((ROUNDS,), (SAMPLED, CHOICE)), 10, 1.0, label="learning rate")
FILES = ("release.json", "model.safetensors", "README.md", "card.html", "MLmodel")


def rows(count=20, seed=5, dimension=DIMENSION):
    return np.random.default_rng(seed).normal(size=(count, dimension))


def public_pool(positive=False):
    x = rows(60, seed=3)
    return PublicEmbeddings(np.abs(x) if positive else x, name="pool")


def vocabulary(unit_rows=False):
    rng = np.random.default_rng(11)
    weights, offset = 2 * rng.normal(size=(9, DIMENSION)), rng.normal(size=9)
    return Vocabulary(tuple("abcdefghi"), weights, offset, unit_rows=unit_rows)


def feature_maps():
    words = FittedVocabularyMap.of(vocabulary())
    return {
        "words": words,
        "words of unit rows": FittedVocabularyMap.of(vocabulary(unit_rows=True)),
        "side by side": FittedSideBySide(PublicMap(axes=4).fit(DIMENSION, public_pool()), words),
        "span": FittedSpan.of(rows(3, seed=12)),
        "unit norm": UnitNorm().fit(DIMENSION, None),
        "pooled": UnitNorm(pool=3).fit(DIMENSION, None),
        "public map": PublicMap(axes=4).fit(DIMENSION, public_pool()),
        "rooted public map": PublicMap(axes=4).fit(DIMENSION, public_pool(positive=True)),
    }


def heads(width, classes=3):
    rng = np.random.default_rng(1)
    flat = rng.normal(size=(classes, width))
    return {
        "cosine": CosineHead(flat),
        "mean cosine": MeanCosineHead(rng.normal(size=(classes, 2, width))),
        "euclidean": EuclideanHead(flat),
        "linear": LinearHead(3 * flat, rng.normal(size=classes), temperature=0.7),
        "quadratic": QuadraticHead(
            flat, rng.normal(size=classes), rng.random((classes, width)), temperature=0.5
        ),
        "average": AverageHead(3 * flat, np.zeros(classes), 5 * rng.normal(size=(classes, width))),
    }


def make_model(
    head="cosine",
    features="unit norm",
    classes=CLASSES,
    events=(NOISE,),
    delta=1e-5,
    seeded=False,
    class_counts=None,
    encoder=ENCODER,
    **provenance,
):
    fitted = feature_maps()[features]
    return PrivateClassifier(
        head=heads(fitted.dimension, len(classes))[head],
        features=fitted,
        facts=Facts(tuple(classes), DIMENSION, size=100, class_counts=class_counts, encoder=encoder),
        events=tuple(events),
        guarantee=guarantee_of(tuple(events), delta, relation=None if events else Relation.ADD_REMOVE),
        provenance=Provenance(
            method="mean-prototypes",
            configuration={"features": {"pool": 1}, "clip": 1.0},
            seeded=seeded,
            **{
                "notes": ("k = 7: all axes",),
                "public": {"name": "pool", "rows": 60},
                "ledger_head": "cd" * 32,
                "created": "2026-11-15T10:00:00+00:00",
                **provenance,
            },
        ),
    )


def rewrite(directory: Path, change, *, content=None):
    """Edit release.json (and other files by `content`) and put every checksum right, as a forger would."""
    path = directory / "release.json"
    fields = json.loads(path.read_text())
    for name, new in (content or {}).items():
        (directory / name).write_bytes(new)
    for name in fields["files"]:
        if (directory / name).exists():
            data = (directory / name).read_bytes()
            fields["files"][name] = {"sha256": hashlib.sha256(data).hexdigest(), "size": len(data)}
    change(fields)
    write_manifest(path, fields)


def write_manifest(path: Path, fields, **options):
    fields["digest"] = "0" * 64
    text = json.dumps(fields, indent=1, ensure_ascii=False, **options) + "\n"
    digest = hashlib.sha256(text.encode()).hexdigest()
    head, _, tail = text.rpartition("0" * 64)
    path.write_text(head + digest + tail)
