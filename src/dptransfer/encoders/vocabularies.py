"""The words that an encoder has for its rows, by the encoder's name, from its model, or from a file."""

from __future__ import annotations

from dptransfer.data.embeddings import PublicEmbeddings
from dptransfer.data.identity import EncoderIdentity
from dptransfer.data.vocabulary import Vocabulary
from dptransfer.encoders.registry import ENCODERS, get_encoder
from dptransfer.errors import ArgumentError, MissingDependency


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
        raise ArgumentError(
            f"A vocabulary is that of an encoder with a public classifier of its rows; '{spec}' has none. "
            "For a model of pictures and texts, make one of its texts with Vocabulary.from_names."
        )
    return found


def known_vocabulary(identity: EncoderIdentity | None) -> Vocabulary | None:
    """The words of an encoder on record, if it is one that has some under its name and is installed.

    It goes by the name alone: an encoder that a release changed bears another. Words of other weights would
    cost accuracy and no privacy, as they are public either way.
    """
    note = ENCODERS.find(identity.name) if identity is not None and identity.name in ENCODERS.names else None
    if note is None or note.vocabulary is None:
        return None
    try:
        return note.vocabulary()
    except MissingDependency:
        return None


def with_known_vocabulary(public: PublicEmbeddings) -> PublicEmbeddings:
    """The pool with the words of its encoder, where it has none itself and they are known."""
    found = known_vocabulary(public.encoder) if public.vocabulary is None else None
    fits = found is not None and found.dimension == public.dimension
    return public.with_vocabulary(found) if fits else public
