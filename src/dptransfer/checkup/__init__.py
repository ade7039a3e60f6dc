"""A checkup of data before anything is spent: for their owner's eyes, charged to nobody, kept nowhere."""

from dptransfer.checkup.advice import Finding
from dptransfer.checkup.all_sets import check
from dptransfer.checkup.report import Checkup

__all__ = ["Checkup", "Finding", "check"]
