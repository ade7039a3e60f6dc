"""An encoder as files for a browser: its graph, and what must be done to a picture or a text before."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

from dptransfer.base.types import JsonObject
from dptransfer.data.vocabulary import Vocabulary
from dptransfer.encoders.encoder import Encoder
from dptransfer.encoders.onnx import OnnxEncoder, export_encoder
from dptransfer.encoders.onnx_graph import OnnxGraph
from dptransfer.encoders.sentence import NAME as MINILM
from dptransfer.encoders.sentence import SentenceOnnx, minilm
from dptransfer.errors import DataError

GRAPH = "encoder.onnx"


def write_encoder(encoder: Encoder, folder: Path) -> JsonObject:
    """Write the encoder's graph, and its labels where it has some; facts for `model.json`.

    Raises:
        DataError: no browser can run it.
    """
    if encoder.kind == "text":
        return _write_text_encoder(encoder, folder)
    if not isinstance(encoder, OnnxEncoder):
        exported = export_encoder(encoder, folder / GRAPH)
    elif encoder.takes_frames:
        (folder / GRAPH).write_bytes(encoder.file.read_bytes())
        exported = encoder
    else:
        raise DataError(
            "A page runs an .onnx file that takes bytes (n, height, width, 3) and gives rows; "
            f"'{encoder.identity.name}' is none. Write one with 'dptransfer encoder export'."
        )
    framing = {**asdict(exported.framing), "heightFirst": height_first()}
    facts: JsonObject = {"kind": "image", "input": exported.input, "framing": framing}
    vocabulary: Vocabulary | None = getattr(encoder, "vocabulary", None)
    if vocabulary is not None:
        (folder / "words.onnx").write_bytes(words_graph(vocabulary))
        facts["words"] = [name.partition(",")[0] for name in vocabulary.names]
    return facts


def _write_text_encoder(encoder: Encoder, folder: Path) -> JsonObject:
    if not isinstance(encoder, SentenceOnnx) and encoder.identity.name == MINILM:
        other = minilm(runtime="onnx")
        encoder = other if other.identity.weights == encoder.identity.weights else encoder
    if not isinstance(encoder, SentenceOnnx) or not encoder.is_uncased_wordpiece:
        raise DataError(
            f"A page reads texts by BERT's uncased WordPiece; the encoder '{encoder.identity.name}' reads "
            "them otherwise. Use dptransfer serve instead."
        )
    (folder / GRAPH).write_bytes(encoder.graph())
    (folder / "vocabulary.json").write_text(json.dumps(encoder.tokens), encoding="utf-8")
    return {"kind": "text", "input": "tokens", "longest": encoder.longest}


def words_graph(vocabulary: Vocabulary) -> bytes:
    """A graph from 'rows' to 'words', the share of each label of the encoder."""
    graph, rows = OnnxGraph("labels", extra="onnx"), "rows"
    if vocabulary.unit_rows:
        norm = graph.node("ReduceL2", rows, axes=[1], keepdims=1)
        rows = graph.node("Div", rows, graph.node("Max", norm, 1e-12))
    logits = graph.node("Add", graph.node("MatMul", rows, vocabulary.weights.T), vocabulary.offset)
    graph.node("Softmax", logits, named="words", axis=1)
    width, words = vocabulary.dimension, len(vocabulary)
    return graph.to_bytes({"rows": ("FLOAT", ["n", width])}, {"words": ("FLOAT", ["n", words])}, {})


def height_first() -> str:
    """When the Pillow that is installed resizes the height before the width, as pillow.mjs calls the rules.

    Bytes are rounded in between, so the order shows: to 12.2 never, in 12.3 for strips, from 13 on where the
    height shrinks by more than twice what the width does.
    """
    from PIL import __version__

    version = tuple(map(int, __version__.split(".")[:2]))
    return "shrinking" if version >= (13, 0) else "strips" if version >= (12, 3) else "never"
