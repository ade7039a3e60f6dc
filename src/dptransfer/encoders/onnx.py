"""Image encoders as ONNX files: run one, or export one that starts from image bytes.

What was written is loaded again and compared with the encoder on pictures of several shapes, and kept only if
their rows agree: whatever an exporter or a preprocessing does that we do not know of shows there.
"""

from __future__ import annotations

import hashlib
import json
import os
import warnings
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from dptransfer.base import checks
from dptransfer.base.lazy_torch import torch
from dptransfer.base.types import AnyArray, EncodedRows, Floats32, JsonObject, Picture
from dptransfer.data.facts import EncoderIdentity
from dptransfer.encoders.efficientnet import EfficientNetOnnx
from dptransfer.encoders.encoder import Encoder, ImageEncoder, blank_picture, require_rows
from dptransfer.encoders.onnx_graph import onnx_session, run_each
from dptransfer.encoders.torch_module import ResizeCrop, TorchModuleEncoder
from dptransfer.encoders.transformers import TransformersImage
from dptransfer.errors import ArgumentError, DataError

if TYPE_CHECKING:
    from onnxruntime import InferenceSession


Triple = tuple[float, float, float]
IMAGENET_MEAN: Triple = (0.485, 0.456, 0.406)
IMAGENET_STD: Triple = (0.229, 0.224, 0.225)


class OnnxEncoder(ImageEncoder):
    """An ONNX model with one image input, (batch, 3, height, width) or (batch, height, width, 3).

    It takes floats, which are scaled as `mean` and `std` say, or bytes, which it scales itself; a file that
    `export_encoder` wrote is of the second kind, and tells how pictures are framed.

    Input name, layout and size are read from the model. Its first output must be rows, or feature maps in the
    layout of the input, which are averaged over space. It is called for one picture at a time, on any device:
    what its operations do with a batch, such as int8 with one scale for all of it, is not known.

    Args:
        path: the `.onnx` file.
        mean: subtracted from the pixels, which run from 0 to 1.
        std: divides what is left.
        size: picture size where the model leaves it open; default 224.
        name: what the encoder is called; default the file's name.
        device: 'cpu' or 'cuda'.
    """

    one_by_one = True

    def __init__(
        self,
        path: str | Path,
        *,
        mean: Triple = IMAGENET_MEAN,
        std: Triple = IMAGENET_STD,
        size: int | None = None,
        name: str | None = None,
        device: str = "cpu",
    ) -> None:
        self.file = file = Path(path)
        self._session = onnx_session(file, extra="onnx", device=device)
        inputs = self._session.get_inputs()
        types = {"tensor(float)": False, "tensor(uint8)": True}
        if len(inputs) != 1 or len(inputs[0].shape) != 4 or inputs[0].type not in types:
            found = f"{len(inputs)} input(s), the first of type {inputs[0].type}"
            rule = f"'{file}': a model of images has one float32 or uint8 input (4 axes); this has {found}."
            raise DataError(f"{rule} Export the image tower alone.")
        self.input, shape = inputs[0].name, inputs[0].shape
        self._channels_first = shape[1] == 3 or shape[3] != 3
        height, width = _picture_size(file, shape[2:] if self._channels_first else shape[1:3], size)
        self.framing = _framing(file, self._session, height, width)
        self._takes_bytes = types[inputs[0].type]
        self._mean = np.asarray(mean, dtype=np.float32)
        self._std = np.asarray([checks.positive("std", value) for value in std], dtype=np.float32)
        with file.open("rb") as stream:
            digest = hashlib.file_digest(stream, "sha256").hexdigest()
        scaling = f"x/255, mean {tuple(map(float, mean))} std {tuple(map(float, std))}"
        transform = f"rgb {self.framing} {'bytes' if self._takes_bytes else scaling}"
        square = height if height == width else None
        self.identity = EncoderIdentity(name or file.stem, digest, transform, square)
        self.dimension = self.measured_dimension()
        blank = self.prepare(blank_picture())[None]
        if not np.array_equal(self.forward(blank), self.forward(blank), equal_nan=True):
            rule = f"'{file}': a model must give one row for one picture; this gives another at every call."
            raise DataError(f"{rule} Export it without random operations.")

    @property
    def takes_frames(self) -> bool:
        """Whether the model takes bytes as they are framed and gives rows, as `export_encoder` writes it."""
        gives_rows = len(self._session.get_outputs()[0].shape) == 2
        return self._takes_bytes and not self._channels_first and gives_rows

    def prepare(self, image: Picture) -> AnyArray:
        """Frame as the model takes it, and normalise unless the model does."""
        small: AnyArray = self.framing(image)
        if not self._takes_bytes:
            small = (small.astype(np.float32) / np.float32(255) - self._mean) / self._std
        return small.transpose(2, 0, 1) if self._channels_first else small

    def forward(self, pixels: Floats32) -> EncodedRows:
        """Rows for a stack of prepared pictures."""
        given = [{self.input: pixels[place : place + 1]} for place in range(len(pixels))]
        return np.concatenate([self._pool(output) for output in run_each(self._session, given)])

    def _pool(self, output: AnyArray) -> EncodedRows:
        rows = np.asarray(output, dtype=np.float32)
        if rows.ndim == 4:
            rows = rows.mean(axis=(2, 3) if self._channels_first else (1, 2))
        return require_rows(rows, 1)


def _framing(file: Path, session: InferenceSession, height: int, width: int) -> ResizeCrop:
    """What the file tells, if it does, of the size that the model takes."""
    told = session.get_modelmeta().custom_metadata_map.get("framing")
    if told is None:
        return ResizeCrop(height, width)
    with suppress(ValueError, TypeError, DataError):
        framing = ResizeCrop(**json.loads(told))
        if (framing.height, framing.width) == (height, width):
            return framing
    raise DataError(f"'{file}': how pictures are framed must fit the model; it does not. Export it again.")


def _picture_size(file: Path, sides: Sequence[int | str], asked: int | None) -> tuple[int, int]:
    fixed = [side if isinstance(side, int) else None for side in sides]
    if asked is not None:
        checks.whole("size (--image-size)", asked)
        if any(side not in (None, asked) for side in fixed):
            raise ArgumentError(f"'{file}' takes pictures of {fixed[0]}x{fixed[1]} only. Leave size out.")
    return fixed[0] or asked or 224, fixed[1] or asked or 224


_APART = 1e-3  # of the largest feature; two runtimes round to less than a tenth of it
_SHAPES = ((61, 83), (83, 61), (290, 310))  # width and height of the pictures that are compared


def export_encoder(encoder: Encoder, path: str | Path) -> OnnxEncoder:
    """Write the encoder as an ONNX file, and load it from there: rows of the file are of another identity.

    Args:
        encoder: efficientnet-lite0, a vision model of `transformers`, a `TorchModuleEncoder` that has a
            `pixel_map`, or one of these as a release changes it.
        path: the file, which ends in .onnx; one that is there already is replaced.
    """
    file = Path(path)
    if file.suffix.lower() != ".onnx":
        raise ArgumentError(f"An encoder is exported to a file that ends in .onnx; got '{file}'. Rename it.")
    partial = file.with_name(f".{os.getpid()}-{file.name}")
    try:
        if isinstance(encoder, EfficientNetOnnx):
            partial.write_bytes(encoder.graph())
        else:
            _write(encoder, partial)
        found, expected = (one.encode(list(sample_pictures())) for one in (OnnxEncoder(partial), encoder))
        alike = found.shape == expected.shape
        if not alike or not np.abs(found - expected).max() <= _APART * np.abs(expected).max():
            rule = f"An exported encoder must give the rows of '{encoder.identity.name}'; this one does not."
            raise DataError(f"{rule} Its preprocessing or an operation is exported as another. Use torch.")
        partial.replace(file)
    finally:
        partial.unlink(missing_ok=True)
    return OnnxEncoder(file)


def _write(encoder: Encoder, file: Path) -> None:
    """The encoder's module with its scaling in front, as torch's exporter sees it work on one picture."""
    networks = TransformersImage | TorchModuleEncoder
    parts = [one for one in getattr(encoder, "both", (encoder,)) if isinstance(one, networks)]
    if not parts or (told := parts[0].preprocessing()) is None:
        rule = "An encoder can be exported if it is of images and tells what it does to pixels;"
        raise ArgumentError(f"{rule} '{encoder.identity.name}' is not, or does not. Use it with torch.")
    onnx = checks.import_optional("onnx", "onnx", "Exporting an encoder")
    framing, *scaling = told
    mean, scale = (torch.tensor(values).reshape(-1, 1, 1) for values in scaling)

    class FromBytes(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.modules_in_turn = torch.nn.ModuleList(one.module for one in parts)

        def forward(self, pixels: torch.Tensor) -> torch.Tensor:
            floats = pixels.permute(0, 3, 1, 2).float()
            found = [module((floats - mean) / scale) for module in self.modules_in_turn]
            rows = [one.mean((2, 3)) if one.ndim == 4 else one for one in found]
            unit = rows if len(rows) == 1 else [torch.nn.functional.normalize(one) for one in rows]
            return torch.cat(unit, dim=1)

    blank = torch.zeros((1, framing.height, framing.width, 3), dtype=torch.uint8)
    how: JsonObject = {"input_names": ["pixels"], "output_names": ["rows"], "opset_version": 17}
    if "dynamo" in signature(torch.onnx.export).parameters:  # the newer exporter needs one more package
        how["dynamo"] = False
    try:
        with warnings.catch_warnings(action="ignore"), torch.inference_mode():
            torch.onnx.export(FromBytes().eval(), (blank,), str(file), **how)
    except Exception as error:  # what goes wrong in an exporter has no common type
        rule = f"torch.onnx must export '{encoder.identity.name}'; it cannot ({type(error).__name__})."
        raise DataError(f"{rule} Use it with torch.") from None
    model = onnx.load(file)
    onnx.helper.set_model_props(model, {"framing": json.dumps(asdict(framing))})
    onnx.save(model, file)


def sample_pictures() -> Iterator[Picture]:
    """Pictures with edges and slopes, of several shapes; the same every time."""
    from PIL import Image

    bits = np.random.Generator(np.random.PCG64(0))
    for shape in _SHAPES:
        coarse = Image.fromarray(bits.integers(0, 256, (9, 9, 3), dtype=np.uint8))
        yield coarse.resize(shape, Image.Resampling.BICUBIC)
