"""A Hugging Face model, from a local folder, the local cache, or the hub when it can be reached.

Only JSON, vocabulary and safetensors files are fetched or loaded: no pickled weights, no remote code.
"""

from __future__ import annotations

import json
import socket
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from dptransfer.base import checks
from dptransfer.encoders.torch_checkpoint import weights_digest
from dptransfer.errors import DataError, DPTransferError

_PATTERNS = ["*.json", "*.txt", "*.model", "model*.safetensors"]


def require_transformers() -> Any:
    """The transformers module, or an error that says how to install it."""
    return checks.import_optional("transformers", "transformers", "A transformers encoder")


def model_folder(source: str) -> Path:
    """The folder with the model's files: `source` itself, or the cached copy of the hub id 'ORG/NAME'."""
    folder = Path(source)
    if folder.is_dir():
        return _complete(folder, source)
    require_transformers()
    from huggingface_hub import constants, snapshot_download

    try:
        cached = Path(snapshot_download(source, allow_patterns=_PATTERNS, local_files_only=True))
        if any(cached.glob("*.safetensors")):
            return _complete(cached, source)
    except Exception:  # "not in the cache" has had several types over the years; the hub is asked next
        pass
    # Asked first because the hub's client would retry for half a minute and print each try.
    if constants.HF_HUB_OFFLINE or not reachable(constants.ENDPOINT):
        raise DataError(
            f"The model '{source}' must be on this machine or on a hub that answers; it is not cached and "
            f"{constants.ENDPOINT} cannot be reached. Fetch it where there is a network and pass its folder."
        )
    rule = f"must be on {constants.ENDPOINT}; fetching it failed"
    with _loading(source, rule, "Check the name, or that you may read it."):
        return _complete(Path(snapshot_download(source, allow_patterns=_PATTERNS)), source)


@contextmanager
def quiet() -> Iterator[None]:
    """Keep transformers from printing progress and advice; a library of ours never prints."""
    from transformers.utils import logging

    level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()


@contextmanager
def _loading(source: str, rule: str, remedy: str) -> Iterator[None]:
    """In quiet; what goes wrong has no common type across causes and versions, and becomes one error."""
    try:
        with quiet():
            yield
    except DPTransferError:
        raise
    except Exception as error:
        raise DataError(f"The model '{source}' {rule} ({type(error).__name__}). {remedy}") from None


def load_model(folder: Path, source: str, device: Any) -> tuple[Any, str, bool]:
    """The frozen model on its device, the digest of its weights, and whether its pooling layer is random.

    Transformers fills weights that the files lack with random numbers. Only a missing pooling layer is
    allowed, and the caller must then not use it: rows made by random weights would differ from one run to the
    next.
    """
    model, missing = _loaded("AutoModel", folder, source)
    if any("pooler" not in name for name in missing):
        raise DataError(
            f"The model '{source}' must bring all its weights; {len(missing)} are missing. "
            "Use a complete checkpoint: random weights make no encoder."
        )
    digest = weights_digest({key: value for key, value in model.state_dict().items() if key not in missing})
    return model.eval().to(device), digest, bool(missing)


def load_classifier(folder: Path, source: str, device: Any) -> Any:
    """The model with the image classifier that it was saved with, or None where it was saved without one."""
    kinds = json.loads((folder / "config.json").read_text()).get("architectures") or ()
    if not any(str(kind).endswith("ForImageClassification") for kind in kinds):
        return None
    model, missing = _loaded("AutoModelForImageClassification", folder, source)
    return None if missing else model.eval().to(device)


def _loaded(kind: str, folder: Path, source: str) -> tuple[Any, frozenset[str]]:
    """The model, and the names of the weights that it lacks."""
    rule = f"must load with transformers.{kind} from safetensors; it does not"
    with _loading(source, rule, "Check the folder, or upgrade transformers."):
        model, found = getattr(require_transformers(), kind).from_pretrained(
            str(folder), local_files_only=True, use_safetensors=True, output_loading_info=True
        )
    return model, frozenset(found["missing_keys"])


def load_part(loader: str, folder: Path, source: str, part: str, *, other_kind: str, **settings: Any) -> Any:
    """The model's tokenizer or image processor, by the class of transformers that loads it."""
    remedy = f"Save {part} into the folder, or pass kind='{other_kind}'."
    with _loading(source, f"must bring {part}; it does not", remedy):
        loaded = getattr(require_transformers(), loader)
        return loaded.from_pretrained(str(folder), local_files_only=True, **settings)


def _complete(folder: Path, source: str) -> Path:
    if not (folder / "config.json").is_file() or not any(folder.glob("*.safetensors")):
        raise DataError(
            f"The model '{source}' must hold config.json and safetensors weights; it does not. "
            "Save it with save_pretrained."
        )
    return folder


def reachable(endpoint: str) -> bool:
    """Whether a hub at this address answers, as far as one connection can tell."""
    if urllib.request.getproxies():
        return True  # a proxy decides; a direct connection would prove nothing
    parts = urlsplit(endpoint)
    port = parts.port or (80 if parts.scheme == "http" else 443)
    try:
        with socket.create_connection((parts.hostname or "", port), timeout=5):
            return True
    except OSError:
        return False
