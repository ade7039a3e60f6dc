"""Frozen public encoders, and the way from images or texts to embeddings."""

from dptransfer.encoders.base import Encoder, EncoderDelta, ImageEncoder
from dptransfer.encoders.extract import EncodeReport, encode_images, encode_texts
from dptransfer.encoders.hub import reachable
from dptransfer.encoders.in_memory import (
    EncodedImages,
    encode_images_in_memory,
    encode_pictures,
    encode_pixels,
    encode_texts_in_memory,
    rows_depend_on_neighbours,
)
from dptransfer.encoders.onnx import OnnxEncoder, export_encoder
from dptransfer.encoders.registry import (
    ENCODERS,
    EncoderNote,
    adapted,
    available_encoders,
    encoder_of,
    get_encoder,
    known_vocabulary,
    vocabulary,
    with_known_vocabulary,
)
from dptransfer.encoders.torch_module import TorchModuleEncoder
from dptransfer.encoders.transformers import transformers_encoder

__all__ = [
    "ENCODERS",
    "EncodeReport",
    "EncodedImages",
    "Encoder",
    "EncoderDelta",
    "EncoderNote",
    "ImageEncoder",
    "OnnxEncoder",
    "TorchModuleEncoder",
    "adapted",
    "available_encoders",
    "encode_images",
    "encode_images_in_memory",
    "encode_pictures",
    "encode_pixels",
    "encode_texts",
    "encode_texts_in_memory",
    "encoder_of",
    "export_encoder",
    "get_encoder",
    "known_vocabulary",
    "reachable",
    "rows_depend_on_neighbours",
    "transformers_encoder",
    "vocabulary",
    "with_known_vocabulary",
]
