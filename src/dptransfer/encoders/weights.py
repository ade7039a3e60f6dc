"""SHA-256 of an encoder's weights: the middle part of its identity."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any


def state_digest(state: Mapping[str, Any]) -> str:
    """Digest of a torch state dict: names, types, shapes and bytes, in the order of the names.

    The same weights give the same digest whatever file they came in and whatever device they are on.
    """
    import torch

    digest = hashlib.sha256()
    for name in sorted(state):
        tensor = state[name].detach().cpu().contiguous()
        digest.update(f"{name}|{tensor.dtype}|{tuple(tensor.shape)}|".encode())
        if tensor.numel():
            digest.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()
