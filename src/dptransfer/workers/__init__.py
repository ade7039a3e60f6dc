"""Who works through data of many pieces: this process, several, or a Ray cluster."""

from dptransfer.workers.base import Here, Workers

__all__ = ["Here", "Workers"]
