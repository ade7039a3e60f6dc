from dptransfer.base.ray_workers import RayCluster as RayCluster
from dptransfer.base.workers import Processes as Processes
from dptransfer.base.workers import ThisProcess as ThisProcess
from dptransfer.base.workers import Workers as Workers
