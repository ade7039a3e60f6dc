"""Float arithmetic as IEEE 754 has it by default, whatever the calling program has set on its threads.

A thread carries settings that change what float operations do: how they round, whether subnormal numbers
count as zeros, whether an overflow or a NaN stops the process. NumPy adds its own: whether they warn or raise
(`np.seterr`). A program may set any of them on one thread and not on another, so the same row could be
rounded differently, or make the program stop, depending on which thread it meets. Work on private rows
therefore runs with the defaults, and what was set before is put back afterwards.

C99's `fesetenv` does that on Linux and macOS. Elsewhere, only NumPy's settings are changed; what then remains
is in docs/known-limits.md. Subnormal numbers do not rest on it: `features.scaled_rows` reads bits.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from typing import Any

import numpy as np


@contextmanager
def plain_floats() -> Iterator[None]:
    """Run what is inside with the default settings of this thread's floats.

    >>> with np.errstate(all="raise"), plain_floats():
    ...     float(np.float64(1e308) * 10)
    inf
    """
    library, default = _environment()
    with np.errstate(all="ignore"):
        if library is None:
            yield
            return
        before = (ctypes.c_longlong * 32)()  # far more than any platform's fenv_t
        library.fegetenv(before)
        try:
            library.fesetenv(default)
            yield
        finally:
            library.fesetenv(before)


def square_root(values: Any) -> Any:
    """The correctly rounded square root of an array, or of a float64 tensor.

    On NVIDIA GPUs torch's own is; on CPUs it may come from a vector library that is off in the last bit.

    >>> square_root(np.array([4.0, 9.0]))
    array([2., 3.])
    """
    if isinstance(values, np.ndarray):
        return np.sqrt(values)
    if values.is_cuda:
        return values.sqrt()
    import torch

    return torch.from_numpy(np.sqrt(values.numpy()))


@cache
def _environment() -> tuple[Any, Any]:
    """The C library, and its name for the default settings; (None, None) where there is none."""
    if not sys.platform.startswith(("linux", "darwin")):
        return None, None
    # PyDLL keeps Python's lock during these calls, which are shorter than giving it up would take.
    try:
        library = ctypes.PyDLL("libm.so.6")
    except OSError:  # macOS and musl have one library for all
        library = ctypes.PyDLL(None)
    for name in ("_FE_DFL_ENV", "__fe_dfl_env"):  # an object on macOS, and in glibc for POWER
        with suppress(ValueError):
            return library, ctypes.byref((ctypes.c_longlong * 2).in_dll(library, name))
    return library, ctypes.c_void_p(-1)  # glibc and musl elsewhere
