"""The encoders by name, with the licence and training data a user should know before relying on one."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from pathlib import Path

from dptransfer.data.identity import EncoderIdentity, require_same_encoder
from dptransfer.encoders.base import Encoder, Kind
from dptransfer.encoders.delta import EncoderDelta
from dptransfer.errors import ArgumentError, DataError


@dataclass(frozen=True)
class EncoderNote:
    """What is known about an encoder that we have checked.

    Attributes:
        name: what to pass to `get_encoder`.
        kind: images or texts.
        dimension: width of its rows.
        extra: the extra of dptransfer that installs it.
        licence: of the weights.
        training_data: what it has seen. Privacy covers the private data only if they are not among this.
    """

    name: str
    kind: Kind
    dimension: int
    extra: str
    licence: str
    training_data: str


KNOWN = (
    EncoderNote(
        name="efficientnet-lite0",
        kind="image",
        dimension=1280,
        extra="torch",
        licence="Apache-2.0",
        training_data="ImageNet-1k (1.3 million labelled photographs from the web)",
    ),
    EncoderNote(
        name="minilm",
        kind="text",
        dimension=384,
        extra="text",
        licence="Apache-2.0 (weights), MIT (package)",
        training_data="1.2 billion English sentence pairs from the web (Reddit, S2ORC, Stack Exchange, ...)",
    ),
)


def available_encoders() -> tuple[EncoderNote, ...]:
    """The encoders known by name."""
    return KNOWN


def get_encoder(
    spec: str, *, size: int | None = None, device: str = "cpu", kind: Kind | None = None
) -> Encoder:
    """The encoder of that name.

    Args:
        spec: 'efficientnet-lite0', 'minilm', 'hf:ORG/NAME' for a model on the Hugging Face hub, a local
            folder with a config.json, or a path that ends in .onnx (normalised as ImageNet models are; use
            `OnnxEncoder` for another normalisation).
        size: picture size, for encoders that leave it open.
        device: 'cpu', 'cuda', 'cuda:1', ...
        kind: 'image' or 'text', for Hugging Face models that do both.
    """
    if spec == "efficientnet-lite0":
        from dptransfer.encoders.efficientnet import SIZE, efficientnet_lite0

        return efficientnet_lite0(size=SIZE if size is None else size, device=device)
    if spec.lower().endswith(".onnx"):
        from dptransfer.encoders.onnx import OnnxEncoder

        return OnnxEncoder(spec, size=size, device=device)
    if spec == "minilm" or spec.startswith("hf:") or (Path(spec) / "config.json").is_file():
        if size is not None:
            raise ArgumentError(
                f"size does not apply to the encoder '{spec}', which fixes its own. Leave it out."
            )
        if spec == "minilm":
            from dptransfer.encoders.sentence import minilm

            return minilm(device=device)
        from dptransfer.encoders.transformers import transformers_encoder

        return transformers_encoder(spec, kind=kind, device=device)
    raise ArgumentError(_unknown(spec))


def encoder_of(
    identity: EncoderIdentity,
    *,
    device: str = "cpu",
    spec: str | None = None,
    delta: EncoderDelta | None = None,
) -> Encoder:
    """The encoder behind an identity on record, for encoding what a release is to predict.

    Args:
        identity: what the release or the embeddings recorded.
        device: where to run.
        spec: where to find it when the name alone does not say, for a local folder or an ONNX file.
        delta: what a release changes in it.
    """
    asked = spec or identity.name
    if Path(asked).suffix != ".onnx" and not any(asked == note.name for note in KNOWN):
        if not asked.startswith("hf:") and not (Path(asked) / "config.json").is_file():
            raise DataError(
                f"The encoder '{asked}' was a local file or module, and its place is not on record. "
                "Say where it is: a folder with config.json, an .onnx file, or hf:ORG/NAME."
            )
    kind: Kind = "image" if identity.transform.startswith("rgb") else "text"
    encoder = get_encoder(asked, size=identity.picture_size, device=device, kind=kind)
    require_same_encoder(identity, encoder.identity, names=("The recorded rows", "the encoder found"))
    return encoder if delta is None else adapted(encoder, delta)


def adapted(encoder: Encoder, delta: EncoderDelta) -> Encoder:
    """The encoder as a release changes it; one that cannot be changed so, or is another, is refused."""
    change = getattr(encoder, "adapted", None)
    if change is None:
        raise ArgumentError(
            f"The encoder '{encoder.identity.name}' cannot be changed by a release, which this one needs. "
            "Use the encoder and the version of dptransfer that the model was fitted with."
        )
    made: Encoder = change(delta)
    require_same_encoder(delta.identity, made.identity, names=("The release", "the changed encoder"))
    return made


def _unknown(spec: str) -> str:
    names = [note.name for note in KNOWN]
    close = difflib.get_close_matches(spec.lower(), names, n=1, cutoff=0.5)
    hint = f"Did you mean '{close[0]}'? " if close else ""
    return (
        f"There is no encoder named '{spec}'. {hint}There are {', '.join(names)}, hf:ORG/NAME, "
        "a local folder with config.json, and a path that ends in .onnx."
    )
