import math

import numpy as np
import pytest

from dptransfer import _check
from dptransfer.errors import ArgumentError, MissingDependency


@pytest.mark.parametrize("value", [1e-12, 1, 0.3, 1e12, np.float32(2)])
def test_moderate_numbers_pass(value):
    assert _check.moderate("ridge", value) == value
    assert type(_check.moderate("ridge", value)) in (int, float)


@pytest.mark.parametrize("value", [0, -1, 9e-13, 1.1e12, 1e37, 1e308, math.inf, math.nan, 10**400, "1", True])
def test_others_do_not_and_zero_only_where_it_may(value):
    with pytest.raises(ArgumentError, match="between 1e-12 and 1e12"):
        _check.moderate("ridge", value)
    if value == 0:
        assert _check.moderate("alpha", value, or_zero=True) == 0
    else:
        with pytest.raises(ArgumentError, match="0, or a number"):
            _check.moderate("alpha", value, or_zero=True)


def test_a_package_that_is_not_installed_is_named_with_the_extra_that_installs_it():
    assert _check.installed("math", "none", "Counting").pi == math.pi
    with pytest.raises(MissingDependency, match=r"Flying needs the package 'no_such'.*dptransfer\[wings\]"):
        _check.installed("no_such.package", "wings", "Flying")
