"""An encoder as files for a browser: its graph, and what must be done to a picture or a text before."""

from __future__ import annotations

import json
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import NamedTuple

import numpy as np

from dptransfer.base.types import JsonObject, PixelArray
from dptransfer.data.vocabulary import Vocabulary
from dptransfer.encoders.encoder import Encoder, ImageEncoder
from dptransfer.encoders.onnx import OnnxEncoder, export_encoder
from dptransfer.encoders.onnx_graph import OnnxGraph, Shapes
from dptransfer.encoders.sentence import NAME as MINILM
from dptransfer.encoders.sentence import SentenceOnnx, minilm
from dptransfer.errors import DataError

GRAPH, WORDS, VOCABULARY = "encoder.onnx", "words.onnx", "vocabulary.json"


class EncoderFiles(NamedTuple):
    """What a page needs of an encoder.

    Attributes:
        files: content by name.
        facts: for `model.json`.
    """

    files: dict[str, bytes]
    facts: JsonObject


def encoder_files(encoder: Encoder) -> EncoderFiles:
    """The encoder's graph, its labels where it has some, and how inputs are prepared for it.

    Raises:
        DataError: no browser can run it.
    """
    if encoder.kind == "text":
        return _of_texts(encoder)
    with tempfile.TemporaryDirectory() as folder:
        exported = _starts_from_bytes(encoder, Path(folder))
        files = {GRAPH: exported.file.read_bytes()}
    framing = {**asdict(exported.framing), "heightFirst": height_first()}
    facts: JsonObject = {"kind": "image", "input": exported.input, "framing": framing, "words": None}
    vocabulary = encoder.vocabulary if isinstance(encoder, ImageEncoder) else None
    if vocabulary is not None:
        files[WORDS] = words_graph(vocabulary)
        facts["words"] = [name.partition(",")[0] for name in vocabulary.names]
    return EncoderFiles(files, facts)


def _starts_from_bytes(encoder: Encoder, folder: Path) -> OnnxEncoder:
    if not isinstance(encoder, OnnxEncoder):
        return export_encoder(encoder, folder / GRAPH)
    if not encoder.takes_frames:
        raise DataError(
            "A page runs an .onnx file that takes bytes (n, height, width, 3) and gives rows; "
            f"'{encoder.identity.name}' is none. Write one with 'dptransfer encoder export'."
        )
    return encoder


def _of_texts(encoder: Encoder) -> EncoderFiles:
    if not isinstance(encoder, SentenceOnnx) and encoder.identity.name == MINILM:
        other = minilm(runtime="onnx")
        encoder = other if other.identity.weights == encoder.identity.weights else encoder
    if not isinstance(encoder, SentenceOnnx) or not encoder.is_uncased_wordpiece:
        raise DataError(
            f"A page reads texts by BERT's uncased WordPiece; the encoder '{encoder.identity.name}' reads "
            "them otherwise. Use dptransfer serve instead."
        )
    tokens = json.dumps(encoder.tokens, ensure_ascii=False).encode()
    facts: JsonObject = {"kind": "text", "input": "tokens", "longest": encoder.longest, "words": None}
    return EncoderFiles({GRAPH: encoder.graph(), VOCABULARY: tokens}, facts)


def words_graph(vocabulary: Vocabulary) -> bytes:
    """A graph from 'rows' to 'words', the share of each label of the encoder."""
    graph, rows = OnnxGraph("labels", extra="onnx"), "rows"
    if vocabulary.unit_rows:
        norm = graph.node("ReduceL2", rows, axes=[1], keepdims=1)
        rows = graph.node("Div", rows, graph.node("Max", norm, 1e-12))
    logits = graph.node("Add", graph.node("MatMul", rows, vocabulary.weights.T), vocabulary.offset)
    graph.node("Softmax", logits, named="words", axis=1)
    inputs: Shapes = {"rows": ("FLOAT", ["n", vocabulary.dimension])}
    return graph.to_bytes(inputs, {"words": ("FLOAT", ["n", len(vocabulary)])}, {})


def height_first() -> str:
    """When the Pillow that is installed resizes the height before the width, as pillow.mjs calls the rules.

    Versions differ: to 12.2 never, in 12.3 for strips, from 13 on where the height shrinks by more than twice
    what the width does. Bytes are rounded in between, so the order shows.
    """
    from PIL import Image

    def resizes_height_first(before: tuple[int, int], after: tuple[int, int]) -> bool:
        bits = np.random.Generator(np.random.PCG64(0))
        noise: PixelArray = bits.choice(np.array([0, 255], np.uint8), (before[1], before[0], 3))
        picture, way = Image.fromarray(noise), Image.Resampling.BICUBIC
        in_turn = picture.resize((before[0], after[1]), way).resize(after, way)
        return in_turn.tobytes() == picture.resize(after, way).tobytes()

    if resizes_height_first((20, 20), (30, 10)):
        return "shrinking"
    return "strips" if resizes_height_first((2, 300), (6, 200)) else "never"
