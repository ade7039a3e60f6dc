"""Encoders by name, their vocabularies, and the encoder behind a recorded identity."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from contextlib import suppress
from copy import copy
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np

from dptransfer.base import checks
from dptransfer.base.plugins import Registry, is_place
from dptransfer.base.types import AnyArray, EncodedRows, JsonObject, Picture
from dptransfer.data.embeddings import PublicEmbeddings
from dptransfer.data.facts import EncoderIdentity, require_same_encoder
from dptransfer.data.grey_levels import GreyRange, declared_range
from dptransfer.data.vocabulary import Vocabulary
from dptransfer.encoders.encoder import BESIDE, MADE_BY, Encoder, EncoderDelta, ImageEncoder, Kind
from dptransfer.errors import ArgumentError, DataError, MissingDependency
from dptransfer.sources.readers import Contents


class Beside(ImageEncoder):
    """Rows of two encoders of the same pictures, each scaled to unit norm, next to each other.

    Args:
        changed: the first, which prepares pictures for both.
        plain: the second.
        identity: of both together.
    """

    def __init__(self, changed: ImageEncoder, plain: ImageEncoder, identity: EncoderIdentity) -> None:
        self.both, self.identity = (changed, plain), identity
        self.dimension = changed.dimension + plain.dimension

    def prepare(self, image: Picture) -> AnyArray:
        """As the changed encoder does."""
        return self.both[0].prepare(image)

    def forward(self, pixels: AnyArray) -> EncodedRows:
        """Rows of both; one that is all zeros stays so."""
        found = [np.asarray(one.forward(pixels), dtype=np.float64) for one in self.both]
        with np.errstate(all="ignore"):  # rows that are no numbers stay none
            norms = [np.linalg.norm(rows, axis=1, keepdims=True) for rows in found]
            unit = [rows / np.where(norm == 0, 1.0, norm) for rows, norm in zip(found, norms, strict=True)]
        return np.hstack(unit).astype(np.float32)


@dataclass(frozen=True)
class EncoderNote:
    """What is known about an encoder before it is loaded.

    Attributes:
        name: what to pass to `get_encoder`; the encoder's identity bears it too, so that a release finds it.
        load: makes the encoder, a class or a function; `device`, `size` and `runtime` are passed if it takes
            them.
        summary: what it is, in one line.
        kind: images or texts.
        dimension: width of its rows; None if that depends on settings.
        install: how to get it.
        licence: of the weights.
        training_data: what it has seen. Privacy covers the private data only if they are not among this.
        vocabulary: gives the words that it has for its rows, without loading the encoder.
    """

    name: str
    load: Callable[..., Encoder]
    summary: str = ""
    kind: Kind = "image"
    dimension: int | None = None
    install: str = ""
    licence: str = "not stated"
    training_data: str = "not stated"
    vocabulary: Callable[[], Vocabulary] | None = None

    def takes(self, option: str) -> bool:
        """Whether it leaves an option open: the size of pictures, the device, or which runtime runs it."""
        return option in inspect.signature(self.load).parameters

    def encoder(self, *, size: int | None = None, device: str = "cpu", runtime: str | None = None) -> Encoder:
        """The encoder itself, loaded.

        Args:
            size: picture size, for encoders that leave it open.
            device: 'cpu', 'cuda', 'cuda:1', ...
            runtime: 'onnx' or 'torch', for encoders that both can run.
        """
        given: dict[str, int | str] = {}
        options = (("size", size, None), ("device", device, "cpu"), ("runtime", runtime, "torch"))
        for option, value, plain in options:
            if value is not None and self.takes(option):
                given[option] = value
            elif value not in (None, plain):
                raise _does_not_apply(option, self.name)
        if "runtime" in given:
            checks.one_of("runtime", str(runtime), ("onnx", "torch"))
        loaded = self.load(**given)
        if not isinstance(loaded, Encoder):
            raise ArgumentError(
                f"An encoder has identity, dimension, kind and encode; '{self.name}' loads as "
                f"{type(loaded).__name__}. The page 'Adding a method' shows one."
            )
        return loaded


def _does_not_apply(option: str, name: str) -> ArgumentError:
    flag = "image-size" if option == "size" else option
    return ArgumentError(f"{option} (--{flag}) does not apply to the encoder '{name}'. Leave it out.")


def _note_of(name: str, found: object) -> EncoderNote:
    """The note itself, or one for a class or a function that makes an encoder and says no more."""
    if isinstance(found, EncoderNote):
        if name and found.name != name:
            raise ArgumentError(f"An encoder bears the name it is found by; '{name}' is '{found.name}'.")
        return found
    if not callable(found):
        rule = f"An encoder is an EncoderNote, or a class or function that makes one; got {found!r}."
        raise ArgumentError(f"{rule} The page 'Adding a method' shows one.")
    first = (found.__doc__ or "").strip().partition("\n")[0]
    return EncoderNote(name or getattr(found, "__name__", "encoder"), load=found, summary=first)


ENCODERS: Registry[EncoderNote] = Registry(
    "encoder",
    "dptransfer.encoders",
    {
        "efficientnet-lite0": "dptransfer.encoders.efficientnet:NOTE",
        "efficientnet-lite2": "dptransfer.encoders.efficientnet:NOTE_OF_LITE2",
        "resnet-50": "dptransfer.encoders.resnet:NOTE",
        "minilm": "dptransfer.encoders.sentence:NOTE",
        "small-cnn": "dptransfer.methods.deep.teachers:NOTE",
    },
    _note_of,
    besides="hf:ORG/NAME, a local folder with config.json, a path that ends in .onnx, or package.module:Name",
)


def available_encoders() -> tuple[EncoderNote, ...]:
    """The encoders known by name."""
    return tuple(ENCODERS.values())


def get_encoder(
    spec: str,
    *,
    size: int | None = None,
    device: str = "cpu",
    kind: Kind | None = None,
    runtime: str | None = None,
    grey_range: GreyRange | None = None,
) -> Encoder:
    """The encoder of that name.

    Args:
        spec: a name in `ENCODERS`, such as 'efficientnet-lite0' or 'minilm'; 'hf:ORG/NAME' for a model on the
            Hugging Face hub; a local folder with a config.json; a path that ends in .onnx (normalised as
            ImageNet models are; use `OnnxEncoder` for another normalisation); or 'package.module:Name', which
            is imported: a class, a function or an `EncoderNote`.
        size: picture size, for encoders that leave it open.
        device: 'cpu', 'cuda', 'cuda:1', ...
        kind: 'image' or 'text', for Hugging Face models that do both.
        runtime: 'onnx' or 'torch', for encoders that both can run, such as efficientnet-lite0. Default ONNX
            Runtime where it is installed and the device is 'cpu'. Part of the identity: the two round
            differently.
        grey_range: the stored values that are black and white in greys of more than bytes; by default what
            each file says. Part of the identity: sets that are read differently do not mix.

    What is returned has an attribute `made_by`, which makes it again in another process.
    """
    if spec not in ENCODERS.names and _is_model(spec):
        encoder = _model(spec, size, device, kind, runtime)
    else:
        encoder = ENCODERS.find(spec).encoder(size=size, device=device, runtime=runtime)
        if spec in ENCODERS.names and encoder.identity.name != spec:
            rule = f"An encoder bears the name it is found by; '{spec}' is called '{encoder.identity.name}'."
            raise ArgumentError(f"{rule} Ask the author of its package.")
    encoder = _with_grey_range(encoder, grey_range)
    options: JsonObject = {"size": size, "device": device, "runtime": runtime, "grey_range": grey_range}
    with suppress(AttributeError):  # one of another package that takes no attributes stays in its process
        setattr(encoder, MADE_BY, partial(get_encoder, spec, kind=kind, **options))
    return encoder


DEFAULT_ENCODERS: Mapping[Contents, str] = {"images": "efficientnet-lite0", "texts": "minilm"}
"""The encoder that is taken where none is named, by what is to be encoded."""


@dataclass(frozen=True)
class Reading:
    """How images and texts become rows.

    Attributes:
        encoder: the name of an encoder, or one that is loaded; None for the default one.
        size: side of the images, for encoders that leave it open.
        grey_range: black and white of images with more than 8 bits, as `open_image` takes it.
        device: where the encoder runs; None for the CPU.
        runtime: 'onnx' or 'torch', for encoders that both can run.
    """

    encoder: str | Encoder | None = None
    size: int | None = None
    grey_range: GreyRange | None = None
    device: str | None = None
    runtime: str | None = None

    def load(self, form: Contents) -> Encoder:
        """The encoder that is named, or the default one for this form."""
        named = self.encoder or DEFAULT_ENCODERS[form]
        given = {key: value for key, value in vars(self).items() if key != "encoder" and value is not None}
        if isinstance(named, str):
            return get_encoder(named, **given)
        if odd := ", ".join(key for key in given if key != "device"):
            rule = f"An encoder that is loaded has its own {odd}."
            raise ArgumentError(f"{rule} Leave that out, or give the encoder's name.")
        return named


def _model(spec: str, size: int | None, device: str, kind: Kind | None, runtime: str | None) -> Encoder:
    """A model by its files or on the hub."""
    if spec.lower().endswith(".onnx"):
        from dptransfer.encoders.onnx import OnnxEncoder

        return OnnxEncoder(spec, size=size, device=device)
    if runtime == "onnx":
        rule = f"runtime='onnx' is for encoders that are graphs; '{spec}' is run by torch."
        raise ArgumentError(f"{rule} Make one of it with 'dptransfer encoder export', and name that file.")
    if size is not None:
        raise _does_not_apply("size", spec)
    from dptransfer.encoders.transformers import transformers_encoder

    return transformers_encoder(spec, kind=kind, device=device)


def _with_grey_range(encoder: Encoder, grey_range: GreyRange | None) -> Encoder:
    """The encoder, with greys of more than bytes read between these values; None: as it is.

    How pictures are read is part of the identity, which is where whoever opens them for the encoder looks.
    """
    declared = declared_range(grey_range)
    if declared is None:
        return encoder
    if encoder.kind != "image":
        why = f"A grey range is for pictures; the encoder '{encoder.identity.name}' is for texts."
        raise ArgumentError(f"{why} Leave it out.")
    changed = copy(encoder)
    try:
        setattr(changed, "identity", encoder.identity.reading(declared))  # noqa: B010  # read-only there
    except AttributeError:
        rule = f"A grey range changes an encoder's identity; that of '{encoder.identity.name}' cannot be set."
        raise ArgumentError(f"{rule} Make it a plain attribute.") from None
    return changed


def encoder_of(
    identity: EncoderIdentity,
    *,
    device: str = "cpu",
    spec: str | None = None,
    delta: EncoderDelta | None = None,
) -> Encoder:
    """The encoder behind an identity on record, for encoding what a release is to predict.

    The record may come from somebody else, so its name is looked up among installed encoders, and is never
    imported.

    Args:
        identity: what the release or the embeddings recorded.
        device: where to run.
        spec: where to find it when the name alone does not say, for a local folder, an ONNX file or a class.
        delta: what a release changes in it.
    """
    asked = spec or identity.name
    if asked not in ENCODERS.names and not _is_model(asked) and not (spec and is_place(spec)):
        rule = f"The encoder '{asked}' is of no installed package, and its place not on record. Install it,"
        place = "a folder with config.json, an .onnx file, hf:ORG/NAME or package.module:Name"
        raise DataError(f"{rule} or say where it is: {place}.")
    note = None if _is_model(asked) else ENCODERS.find(asked)
    kind: Kind = "image" if identity.transform.startswith("rgb") else "text"
    size = identity.size if note is None or note.takes("size") else None
    runtime = (identity.runtime or "torch") if note is not None and note.takes("runtime") else None
    grey_range = identity.grey_range
    encoder = get_encoder(asked, size=size, device=device, kind=kind, runtime=runtime, grey_range=grey_range)
    require_same_encoder(identity, encoder.identity, names=("The recorded rows", "the encoder found"))
    if delta is None:
        return encoder
    changed = apply_delta(encoder, delta)
    with suppress(AttributeError):
        setattr(changed, MADE_BY, partial(encoder_of, identity, device=device, spec=spec, delta=delta))
    return changed


def apply_delta(encoder: Encoder, delta: EncoderDelta) -> Encoder:
    """The encoder as a release changes it; one that cannot be changed so, or is another, is refused."""
    require_same_encoder(delta.base, encoder.identity, names=("The change of an encoder", "the encoder"))
    change = getattr(encoder, "with_delta", None)
    if change is None:
        rule = f"The encoder '{encoder.identity.name}' cannot be changed by a release, which this one needs."
        raise ArgumentError(f"{rule} Use the encoder and the version that the model was fitted with.")
    alone = replace(delta, kind=delta.kind.removesuffix(BESIDE))
    made: ImageEncoder = change(alone)
    if alone.kind != delta.kind and isinstance(encoder, ImageEncoder):
        made = Beside(made, encoder, delta.identity)
    require_same_encoder(delta.identity, made.identity, names=("The release", "the changed encoder"))
    return made


def _is_model(spec: str) -> bool:
    """Whether a text names a model by its files or on the hub, rather than an encoder by name or place."""
    return spec.lower().endswith(".onnx") or spec.startswith("hf:") or (Path(spec) / "config.json").is_file()


def vocabulary(spec: str) -> Vocabulary:
    """The words of the encoder of that name.

    Args:
        spec: 'efficientnet-lite0', whose words are ImageNet's 1,000 classes and take 30 ms, without torch; a
            transformers model, as `get_encoder` takes it, saved with its image classifier; or the `.npz`
            file of a `Vocabulary.save`.
    """
    if spec.lower().endswith(".npz"):
        return Vocabulary.read(spec)
    note = ENCODERS.find(spec) if spec in ENCODERS.names else None
    if note is not None and note.vocabulary is not None:
        return note.vocabulary()
    found: Vocabulary | None = None if note is not None else getattr(get_encoder(spec), "vocabulary", None)
    if found is None:
        rule = f"A vocabulary is that of an encoder with a public classifier of its rows; '{spec}' has none."
        raise ArgumentError(f"{rule} For a model of pictures and texts use Vocabulary.from_names.")
    return found


def known_vocabulary(identity: EncoderIdentity | None) -> Vocabulary | None:
    """The words of an encoder on record, if it is one that has some under its name and is installed.

    It goes by the name alone: an encoder that a release changed bears another. Words of other weights would
    cost accuracy and no privacy, as they are public either way.
    """
    note = ENCODERS.find(identity.name) if identity is not None and identity.name in ENCODERS.names else None
    with suppress(MissingDependency):
        return None if note is None or note.vocabulary is None else note.vocabulary()
    return None


def with_known_vocabulary(public: PublicEmbeddings) -> PublicEmbeddings:
    """The pool with the words of its encoder, where it has none itself and they are known."""
    found = known_vocabulary(public.encoder) if public.vocabulary is None else None
    fits = found is not None and found.dimension == public.dimension
    return public.with_vocabulary(found) if fits else public
