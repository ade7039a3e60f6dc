"""Which runtime an encoder that has two is run by: ONNX Runtime, or torch."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence

from dptransfer.errors import ArgumentError


def runtime_for(name: str, *, device: str, asked: str | None, packages: Sequence[str]) -> str:
    """'onnx' or 'torch': what is asked for, else ONNX Runtime on a CPU, unless only torch is installed.

    Args:
        name: the encoder's.
        device: where to run; ONNX Runtime runs it on the cpu alone.
        asked: what the user says.
        packages: what ONNX Runtime needs for it, itself included.
    """
    if asked is None:
        can = all(importlib.util.find_spec(package) is not None for package in packages)
        return "onnx" if device == "cpu" and (can or importlib.util.find_spec("torch") is None) else "torch"
    if asked == "onnx" and device != "cpu":
        raise ArgumentError(
            f"Rows of {name} by ONNX Runtime are made on the cpu; got device={device!r}. Leave device out, "
            "or make all rows with runtime='torch'."
        )
    return asked
