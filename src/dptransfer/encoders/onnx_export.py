"""An image encoder as an ONNX file, from a picture's bytes to its row, for ONNX Runtime without torch.

What was written is loaded again and compared with the encoder on pictures of several shapes, and kept only if
their rows agree: whatever an exporter or a preprocessing does that we do not know of shows there.
"""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np

from dptransfer import _check
from dptransfer.encoders.base import Encoder
from dptransfer.encoders.efficientnet import EfficientNetOnnx
from dptransfer.encoders.framing import Framing
from dptransfer.encoders.onnx import OnnxEncoder
from dptransfer.encoders.transformers import TransformersImage
from dptransfer.errors import ArgumentError, DataError, DPTransferError

_APART = 1e-3  # of the largest feature; two runtimes round to less than a tenth of it
_SHAPES = ((61, 83), (83, 61), (290, 310))  # width and height of the pictures that are compared


def export_encoder(encoder: Encoder, path: str | Path) -> OnnxEncoder:
    """Write the encoder as an ONNX file, and load it from there: rows of the file are of another identity.

    Args:
        encoder: efficientnet-lite0, a vision model of `transformers`, or a `TorchModuleEncoder` that has a
            `pixel_map`.
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
        found, expected = (one.encode(list(_pictures())) for one in (OnnxEncoder(partial), encoder))
        alike = found.shape == expected.shape
        if not alike or not np.abs(found - expected).max() <= _APART * np.abs(expected).max():
            raise DataError(
                f"An exported encoder must give the rows of '{encoder.identity.name}'; this one does not, "
                "because of its preprocessing or of an operation that is exported as another. Use torch."
            )
        partial.replace(file)
    finally:
        partial.unlink(missing_ok=True)
    return OnnxEncoder(file)


def _write(encoder: Any, file: Path) -> None:
    """The encoder's module with its scaling in front, as torch's exporter sees it work on one picture."""
    framing, mean, scale = _preprocessing(encoder)
    torch = _check.installed("torch", "torch", "Exporting an encoder")
    onnx = _check.installed("onnx", "onnx", "Exporting an encoder")

    subtracted, divisor = (torch.tensor(values).reshape(-1, 1, 1) for values in (mean, scale))

    class FromBytes(torch.nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.module = encoder.module

        def forward(self, pixels: Any) -> Any:
            floats = pixels.permute(0, 3, 1, 2).float()
            rows = self.module((floats - subtracted) / divisor)
            return rows.mean((2, 3)) if rows.ndim == 4 else rows

    blank = torch.zeros((1, framing.height, framing.width, 3), dtype=torch.uint8)
    how: dict[str, Any] = {"input_names": ["pixels"], "output_names": ["rows"], "opset_version": 17}
    if "dynamo" in signature(torch.onnx.export).parameters:  # the newer exporter needs one more package
        how["dynamo"] = False
    with _exporting(encoder.identity.name), torch.inference_mode():
        torch.onnx.export(FromBytes().eval(), (blank,), str(file), **how)
    model = onnx.load(file)
    onnx.helper.set_model_props(model, {"framing": json.dumps(framing.to_dict())})
    onnx.save(model, file)


def _preprocessing(encoder: Any) -> tuple[Framing, tuple[float, ...], tuple[float, ...]]:
    """How the encoder frames pictures, and what it subtracts from bytes and divides them by."""
    if isinstance(encoder, TransformersImage):
        told = encoder.preprocessing()
        if told is not None:
            return told
    elif getattr(encoder, "pixel_map", None) is not None:
        side, *scaling = encoder.pixel_map
        mean, scale = (tuple(map(float, np.broadcast_to(one, 3))) for one in scaling)
        return Framing(side, side), mean, scale
    raise ArgumentError(
        "An encoder can be exported if it is of images and tells what it does to pixels; "
        f"'{encoder.identity.name}' is not, or does not. Use it with torch."
    )


@contextmanager
def _exporting(name: str) -> Iterator[None]:
    """In quiet; what goes wrong in an exporter has no common type, and becomes one error."""
    try:
        with warnings.catch_warnings(action="ignore"):
            yield
    except DPTransferError:
        raise
    except Exception as error:
        raise DataError(
            f"The network of '{name}' must be one that torch.onnx can export; it is not "
            f"({type(error).__name__}). Use it with torch."
        ) from None


def _pictures() -> Iterator[Any]:
    """Pictures with edges and slopes, of several shapes; the same every time."""
    from PIL import Image

    bits = np.random.Generator(np.random.PCG64(0))
    for shape in _SHAPES:
        coarse = Image.fromarray(bits.integers(0, 256, (9, 9, 3), dtype=np.uint8))
        yield coarse.resize(shape, Image.Resampling.BICUBIC)
