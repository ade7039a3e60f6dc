"""A checkup of data before anything is spent: for their owner's eyes, charged to nobody, kept nowhere."""

from dptransfer.checkup.check import check
from dptransfer.checkup.findings import Finding
from dptransfer.checkup.report import Checkup

__all__ = ["Checkup", "Finding", "check"]
