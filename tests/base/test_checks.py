import math

import numpy as np
import pytest

from dptransfer.base import checks
from dptransfer.errors import ArgumentError, MissingDependency


@pytest.mark.parametrize("value", [1e-12, 1, 0.3, 1e12, np.float32(2)])
def test_moderate_numbers_pass(value):
    assert checks.moderate("ridge", value) == value
    assert type(checks.moderate("ridge", value)) in (int, float)


@pytest.mark.parametrize("value", [0, -1, 9e-13, 1.1e12, 1e37, 1e308, math.inf, math.nan, 10**400, "1", True])
def test_others_do_not_and_zero_only_where_it_may(value):
    with pytest.raises(ArgumentError, match="1e-12 to 1e12"):
        checks.moderate("ridge", value)
    if value == 0:
        assert checks.moderate("alpha", value, or_zero=True) == 0
    else:
        with pytest.raises(ArgumentError, match="0, or 1e-12"):
            checks.moderate("alpha", value, or_zero=True)


def test_a_package_that_is_not_installed_is_named_with_the_extra_that_installs_it():
    assert checks.import_optional("math", "none", "Counting").pi == math.pi
    with pytest.raises(MissingDependency, match=r"dptransfer\[wings\]"):
        checks.import_optional("no_such.package", "wings", "Flying")


def test_a_rate_is_above_zero_and_at_most_one():
    assert [checks.rate("rate", value) for value in (1e-9, 0.5, 1)] == [1e-9, 0.5, 1]
    for bad in (0.0, -0.1, 1.0000001, float("nan"), True):
        with pytest.raises(ArgumentError, match="rate must"):
            checks.rate("rate", bad)


def test_what_may_be_left_open_is_checked_where_it_is_not():
    steps = checks.or_none(checks.whole)
    assert (steps("steps", None), steps("steps", 3.0)) == (None, 3)
    with pytest.raises(ArgumentError, match="steps must"):
        steps("steps", 0)
