"""torch, imported when it is first used: whoever works on rows alone needs none, and waits for none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch as torch
else:

    class _OnFirstUse:
        def __getattr__(self, name: str) -> Any:
            import torch

            return getattr(torch, name)

    torch = _OnFirstUse()
