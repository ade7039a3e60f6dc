import math

import numpy as np
import pytest
import torch

from dptransfer.methods.deep.network_gradient import MOST_PARAMETERS, coordinate_bits, gradient_lattice

NORM = 2**30


def exact_squares(integers):
    return [sum(int(one) ** 2 for one in row) for row in integers]


def nasty():
    """Rows of floats that break careless arithmetic."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(12, 300)).astype(np.float32)
    rows[1] *= 1e38 / np.abs(rows[1]).max()  # its norm overflows single precision
    rows[2] *= np.float32(1e-30)
    rows[3] = 1.0
    rows[4] = 0.0
    rows[5, 7] = np.nan
    rows[6, 9] = -np.inf
    rows[7] = np.float32(1e-44)  # subnormal
    rows[8, 1:] = 0
    rows[9] = np.float32(3.4e38)
    rows[10, ::2] = np.float32(1e-45)
    return torch.from_numpy(rows)


@pytest.mark.parametrize("clip", [1e-6, 1.0, 50.0, 1e12])
def test_no_row_is_longer_than_the_norm_whatever_is_in_it(clip):
    found = gradient_lattice(nasty(), NORM, clip=clip)
    assert found.dtype == torch.int64
    assert max(exact_squares(found)) <= NORM**2


def test_rows_that_are_clipped_keep_almost_the_whole_norm_and_their_direction():
    rows = nasty()
    found = gradient_lattice(rows, NORM, clip=1e-6).double()
    norms = found.norm(dim=1) / NORM
    assert (norms[[0, 1, 3, 8, 9, 10, 11]] > 1 - 1e-5).all()
    for which in (0, 1, 9):
        one = rows[which].double()
        assert torch.allclose(found[which] / NORM, one / one.norm(), atol=1e-6)


def test_rows_inside_of_the_clip_are_only_scaled():
    rows = torch.from_numpy(np.random.default_rng(1).normal(size=(4, 50)).astype(np.float32))
    found = gradient_lattice(rows, NORM, clip=64.0).double() * 64 / NORM
    assert torch.allclose(found, rows.double(), atol=1e-6)


def test_what_is_not_finite_or_next_to_nothing_is_a_row_of_zeros():
    found = gradient_lattice(nasty(), NORM, clip=1.0)
    assert [row for row in range(12) if not found[row].any()] == [2, 4, 5, 6, 7]


def test_neighbours_and_their_order_change_no_integer():
    rows = nasty()
    whole = gradient_lattice(rows, NORM, clip=1.0)
    order = torch.from_numpy(np.random.default_rng(2).permutation(12))
    assert torch.equal(gradient_lattice(rows[order], NORM, clip=1.0), whole[order])
    assert torch.equal(gradient_lattice(rows[3:4], NORM, clip=1.0), whole[3:4])


def test_a_flag_for_subnormal_numbers_changes_no_integer():
    rows = nasty()
    before = gradient_lattice(rows, NORM, clip=1.0)
    try:
        torch.set_flush_denormal(True)
        assert torch.equal(gradient_lattice(rows, NORM, clip=1.0), before)
    finally:
        torch.set_flush_denormal(False)


def test_squares_of_the_largest_coordinates_fit_64_bits():
    for parameters in (1, 2, 3, 1000, 55_000, MOST_PARAMETERS):
        assert parameters * 4 ** coordinate_bits(parameters) <= 2**62
    assert math.sqrt(MOST_PARAMETERS) / 2 ** (coordinate_bits(MOST_PARAMETERS) - 1) < 0.012


@pytest.mark.gpu
def test_integers_are_the_same_on_a_gpu():
    rng = np.random.default_rng(3)
    for rows in (nasty(), torch.from_numpy(rng.standard_t(2, (64, 60_000)).astype(np.float32))):
        for clip in (1e-3, 1.0, 300.0):
            there = gradient_lattice(rows.cuda(), NORM, clip=clip).cpu()
            assert torch.equal(there, gradient_lattice(rows, NORM, clip=clip))


def test_coordinates_just_above_whole_numbers_are_not_counted_as_less():
    """A grain is taken off each before it is rounded up: 2⁻³⁰ of the norm here, which must come back."""
    row = torch.full((1, 2**20), 1 + 2.0**-10)
    row[0, 0] = 2.0**20  # which is where step 2 leaves it, so that the grains are exact
    norm = 2**50
    values, counts = gradient_lattice(row, norm, clip=1e-6).unique(return_counts=True)
    squares = sum(int(value) ** 2 * int(count) for value, count in zip(values, counts, strict=True))
    assert squares <= norm**2
    assert squares > norm**2 * (1 - 4e-6)  # and no more than two grains per coordinate are taken off
