"""Settings that a program may make on its threads, and that must not decide anything."""

import ctypes
import platform
import sys
from contextlib import contextmanager, nullcontext

import numpy as np
import pytest

from dptransfer.exact import chunks as threads

_MACHINE = platform.machine().lower()
_X86, _ARM = _MACHINE in ("x86_64", "amd64"), _MACHINE in ("aarch64", "arm64")

needs_flags = pytest.mark.skipif(
    not (sys.platform.startswith("linux") and (_X86 or _ARM)), reason="flags are set as glibc keeps them"
)
ROUNDING = (
    {"down": 0x400, "up": 0x800, "to zero": 0xC00}
    if _X86
    else {"up": 0x400000, "down": 0x800000, "to zero": 0xC00000}
)


@contextmanager
def flushing():
    """Subnormal numbers are zeros on this thread, as operands and as results."""
    library = ctypes.CDLL("libm.so.6")
    before, changed = (ctypes.c_uint32 * 64)(), (ctypes.c_uint32 * 64)()
    library.fegetenv(before)
    library.fegetenv(changed)
    if _X86:
        changed[7] |= 0x8040  # the last word of fenv_t is MXCSR; these bits are FTZ and DAZ
    else:
        changed[0] |= 1 << 24  # FPCR.FZ
    library.fesetenv(changed)
    try:
        yield
    finally:
        library.fesetenv(before)


@contextmanager
def rounding(mode):
    """Results on this thread are rounded this way."""
    library = ctypes.CDLL("libm.so.6")
    assert library.fesetround(ROUNDING[mode]) == 0
    try:
        yield
    finally:
        library.fesetround(0)


@contextmanager
def met(setting, when):
    """Work runs with the setting made `before` the kept threads exist, `after` that, or `never`."""
    threads._thread_pool.cache_clear()
    try:
        if when != "before":
            assert list(threads.side_by_side(abs, [-1, -2, -3, -4], 2)) == [1, 2, 3, 4]
        with nullcontext() if when == "never" else setting:
            yield
    finally:
        threads._thread_pool.cache_clear()


def unguarded(monkeypatch):
    """Without `plain_floats` where work is shared out, but for its silence."""
    monkeypatch.setattr(threads, "plain_floats", lambda: np.errstate(all="ignore"))
