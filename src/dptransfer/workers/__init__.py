"""Who works through data of many pieces: this process, several, or a Ray cluster."""

from dptransfer.workers.base import Here, Workers
from dptransfer.workers.processes import Processes
from dptransfer.workers.ray_cluster import RayCluster

__all__ = ["Here", "Processes", "RayCluster", "Workers"]
