"""Notice that a Ray cluster is gone, before Ray notices it and ends this process at once.

Ray's own code, below Python, ends a process whose cluster has died, with exit code 1 and without a word. Then
no charge would be closed and nobody would be told. So whoever waits for tasks looks first.
"""

from __future__ import annotations

import socket
import time
from typing import Any

from dptransfer.errors import DPTransferError
from dptransfer.workers.ray_connection import place_of

_SECONDS, _BETWEEN = 2.0, 4.0
_PATIENCE = 20.0  # seconds; Ray itself waits for a minute


class Pulse:
    """Whether the cluster that this process belongs to still lives.

    Args:
        ray: the module, connected.
    """

    def __init__(self, ray: Any) -> None:
        self.gone = False
        node = getattr(getattr(getattr(ray, "_private", None), "worker", None), "_global_node", None)
        self._store = getattr(node, "plasma_store_socket_name", None)  # none where Ray runs elsewhere
        self._head = getattr(node, "gcs_address", None)
        self._answered = self._looked = time.monotonic()

    def require(self) -> None:
        """Raise if this machine's part of the cluster has ended, or its head has not answered for a while."""
        if self._store is not None and not _answers(self._store):
            self._give_up("the Ray node of this machine has ended")
        now = time.monotonic()
        if self._head is None or now - self._looked < _BETWEEN:
            return
        if _answers(place_of(self._head)):
            self._answered = now
        elif now - self._answered > _PATIENCE:
            self._give_up("its head does not answer any more")
        self._looked = time.monotonic()

    def _give_up(self, why: str) -> None:
        self.gone = True
        raise DPTransferError(
            f"The Ray cluster must live until its work is done; {why}. What was charged stays charged. Start "
            "the cluster again; a run with a workspace goes on, and any other is charged anew."
        )


def _answers(place: str | tuple[str, int]) -> bool:
    """Whether somebody listens at a host and port, or at a socket in the file system."""
    try:
        if not isinstance(place, str):
            socket.create_connection(place, timeout=_SECONDS).close()
            return True
        with socket.socket(socket.AF_UNIX) as line:
            line.settimeout(_SECONDS)
            line.connect(place)
            return True
    except OSError:
        return False
