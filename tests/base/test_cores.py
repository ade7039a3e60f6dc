"""Counting cores."""

import os

import numpy as np

from dptransfer.base import worker_env as cores
from dptransfer.exact.chunks import over_chunks


def test_it_counts_the_cores_that_this_process_may_use():
    assert cores.usable_cores() == len(os.sched_getaffinity(0))


def test_a_system_that_cannot_tell_its_cores_still_works(monkeypatch):
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    assert cores.usable_cores() >= 1
    assert list(over_chunks(lambda chunk: np.arange(10)[chunk].sum(), 10, 1)) == [45]
