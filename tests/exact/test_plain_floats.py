import ctypes
import subprocess
import sys
import warnings

import numpy as np
import pytest

from contracts.floating_point import ROUNDING, flushing, needs_flags, rounding
from dptransfer.exact import chunks as module
from dptransfer.exact.chunks import plain_floats, side_by_side
from dptransfer.exact.cuda import square_root

TINY = np.array([1e-310, 4e-308])


def flushes():
    return not (TINY * 0.5).all()


def quotients():
    """Quotients of which rounding to nearest lengthens some and shortens others."""
    return (np.array([1.0, -1.0]) / np.array([[3.0], [10.0]])).tolist()


@needs_flags
def test_subnormal_numbers_are_there_inside_and_the_flag_is_back_afterwards():
    assert not flushes()
    with flushing():
        assert flushes()
        with plain_floats():
            assert not flushes()
        assert flushes()
    assert not flushes()


@needs_flags
@pytest.mark.parametrize("mode", ROUNDING)
def test_rounding_is_to_nearest_inside_and_as_it_was_afterwards(mode):
    nearest = quotients()
    with rounding(mode):
        changed = quotients()
        with plain_floats():
            assert quotients() == nearest
        assert quotients() == changed != nearest
    assert quotients() == nearest


@needs_flags
def test_settings_are_put_back_after_an_error():
    with flushing(), pytest.raises(KeyError):
        with plain_floats():
            raise KeyError
    with flushing():
        assert flushes()


def test_nothing_is_said_and_nothing_raised_inside_and_both_are_as_before_afterwards():
    with np.errstate(all="raise"), warnings.catch_warnings():
        warnings.simplefilter("error")
        with plain_floats():
            assert np.isinf(np.float64(1e308) * 10)
            assert np.isnan(np.zeros(1) / np.zeros(1)).all()
            assert (np.array([1e-300]) * 1e-300 == 0).all()
        with pytest.raises(FloatingPointError):
            np.float64(1e308) * 10


@needs_flags
@pytest.mark.parametrize("count", [1, 2, 3])
def test_work_that_is_shared_out_has_plain_floats_on_every_thread(count):
    with flushing(), np.errstate(all="raise"):
        found = list(side_by_side(lambda _: (flushes(), np.geterr()["over"]), range(3), count))
    assert found == [(False, "ignore")] * 3


@needs_flags
def test_nested_use_puts_back_what_each_level_found():
    with flushing():
        with plain_floats():
            with rounding("up"):
                changed = quotients()
                with plain_floats():
                    assert quotients() != changed
                assert quotients() == changed
            assert not flushes()
        assert flushes()


@needs_flags
def test_without_a_c_library_only_numpys_settings_are_changed(monkeypatch):
    monkeypatch.setattr(module, "_float_environment", lambda: (None, None))
    with flushing(), np.errstate(all="raise"):
        with plain_floats():
            assert flushes()
            assert np.isinf(np.float64(1e308) * 10)
        with pytest.raises(KeyError), plain_floats():
            raise KeyError
        assert np.geterr()["over"] == "raise"


_TRAPPED = """
import ctypes, sys, numpy as np
from dptransfer.exact.feature_map import UnitNorm
rows = np.array([[np.nan, 1.0], [np.inf, 0.0], [1e308, 1e-308], [5e-324, 0.0]])
fitted = UnitNorm().fit(2, None)
fitted.lattice(np.ones((1, 2)), 100)
assert ctypes.CDLL("libm.so.6").feenableexcept(1 | 4 | 8 | 16) == 0
print(fitted.lattice(rows, 100).tolist()) if sys.argv[1] == "map" else np.multiply(rows, 1e308)
"""


@needs_flags
@pytest.mark.skipif(
    sys.platform != "linux" or not hasattr(ctypes.CDLL(None), "feenableexcept"), reason="glibc"
)
def test_a_process_that_is_stopped_by_float_exceptions_is_not_stopped_by_rows():
    def ends(what):
        return subprocess.run([sys.executable, "-c", _TRAPPED, what], capture_output=True, text=True)

    found = ends("map")
    assert (found.returncode, found.stdout) == (0, "[[0, 0], [0, 0], [99, 0], [99, 0]]\n")
    assert ends("multiply").returncode < 0  # the half that can fail: by a signal


def test_square_roots_of_tensors_are_those_of_arrays():
    torch = pytest.importorskip("torch")
    values = np.append(np.random.default_rng(0).random(5000), 1 - 2.0**-53)
    assert (square_root(torch.from_numpy(values)).numpy() == np.sqrt(values)).all()
