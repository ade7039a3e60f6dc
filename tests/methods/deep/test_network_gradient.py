import math

import numpy as np
import pytest
import torch
from torch import nn

from dptransfer.mechanisms import GaussianRounds
from dptransfer.methods.deep.network_gradient import (
    MOST_PARAMETERS,
    NetworkGradient,
    coordinate_bits,
    gradient_lattice,
)
from dptransfer.methods.deep.picture_loss import PictureLoss, Pictures
from dptransfer.methods.deep.trained_parts import TRAINED, TrainedParts
from dptransfer.noise import SeededNoise
from dptransfer.privacy import Bound, Relation, Unit

from .toys import CLASSES, labels, pictures, shared_parts, somewhere, tiny_network

PERSON = Bound(Unit.PERSON)


def asked(train="film", count=13, *, pixels=None, micro_batch=4, clip=1.0, far=1.0, **settings):
    """A question about so many pictures, and the pictures' positions and labels."""
    pixels = pictures(count) if pixels is None else pixels
    parts = shared_parts(train)
    loss = PictureLoss(Pictures(parts, pixels, micro_batch=micro_batch))
    gradients = loss.gradients_at(somewhere(parts, far=far))
    query = NetworkGradient(parts.size, gradients, micro_batch, clip, **settings)
    return query, np.arange(len(pixels)), labels(len(pixels))


def test_one_picture_moves_the_sum_as_far_as_is_said_and_no_farther():
    query, positions, y = asked(clip=0.05, far=3.0)
    others = query(positions[2:], y[2:])
    moved = [
        np.linalg.norm((query(positions[[one, *range(2, 13)]], np.append(c, y[2:])) - others) / query.grid)
        for one in (0, 1)
        for c in range(CLASSES)
    ]
    assert 0.999 < max(moved) <= 1 == query.l2_sensitivity(Relation.ADD_REMOVE)
    far = [query(positions[:1], np.array([c])) / query.grid for c in range(CLASSES)]
    apart = max(np.linalg.norm(one - other) for one in far for other in far)
    assert 1.2 < apart <= query.l2_sensitivity(Relation.REPLACE_ONE)


def test_a_person_adds_what_they_would_add_alone_and_no_more_than_the_bound():
    query, positions, y = asked(clip=0.05, far=3.0, count=24, bound=Bound(Unit.PERSON, 2.0))
    people = np.array([0] * 11 + [1] * 6 + [2] * 6 + [3])
    everyone = query(positions, y, people)
    alone = [query(positions[people == one], y[people == one], people[people == one] * 0) for one in range(4)]
    assert (everyone == sum(alone)).all()
    norms = [np.linalg.norm(one / query.grid) for one in alone]
    assert 1.98 < max(norms) <= 2 == query.l2_sensitivity(Relation.ADD_REMOVE)
    assert norms[3] <= 1
    rows, *_ = asked(clip=0.05, far=3.0, count=24)
    assert (alone[3] == rows(positions[23:], y[23:])).all()


def test_many_pictures_of_one_person_reach_the_bound_and_not_more():
    query, _, _ = asked(clip=0.05, far=3.0, pixels=np.repeat(pictures(1), 40, axis=0), bound=PERSON)
    same = query(np.arange(40), np.zeros(40, dtype=np.int64), np.zeros(40, dtype=np.int64))
    assert 0.99 < np.linalg.norm(same / query.grid) <= 1


def test_pieces_of_a_micro_batch_change_no_integer(monkeypatch):
    people, (rows, positions, y) = np.arange(13) // 3, asked(clip=0.05, far=3.0)
    persons, *_ = asked(clip=0.05, far=3.0, bound=PERSON)
    whole = rows(positions, y), persons(positions, y, people)
    for elements in (1, 3 * rows.parameters):
        monkeypatch.setattr("dptransfer.methods.deep.network_gradient._IN_CACHE", elements)
        assert (rows(positions, y) == whole[0]).all()
        assert (persons(positions, y, people) == whole[1]).all()


@pytest.mark.parametrize("train", TRAINED)
def test_micro_batches_and_their_order_change_no_integer(train):
    query, positions, y = asked(train, micro_batch=4)
    whole, order = query(positions, y), np.random.default_rng(3).permutation(13)
    assert (query(positions[order], y[order]) == whole).all()
    parts = query(positions[:5], y[:5]) + query(positions[5:], y[5:])
    assert (parts == whole).all()
    assert whole.any()


def test_no_pictures_are_an_answer_of_zeros():
    for bound in (Bound(Unit.ROW), PERSON):
        query, positions, y = asked(bound=bound)
        people = () if bound.unit is Unit.ROW else (positions[:0],)
        assert not query(positions[:0], y[:0], *people).any()
        assert query(positions[:0], y[:0], *people).shape == query.shape


def test_a_blank_that_fills_a_micro_batch_adds_nothing():
    query, positions, y = asked(count=3, micro_batch=8)
    one, *_ = asked(count=3, micro_batch=1)
    filled, alone = query(positions, y) / query.grid, one(positions, y) / query.grid
    assert np.allclose(filled, alone, atol=1e-5)


def test_rounds_sample_pictures_by_their_positions():
    query, positions, y = asked()
    paid = GaussianRounds(query, 1e-1, Relation.ADD_REMOVE, times=2, sampling_rate=0.5)
    rounds, seen = paid.open(noise=SeededNoise(0)), []
    answer = rounds.release(query, positions, y)
    assert answer.shape == query.shape
    watched = NetworkGradient(query.parameters, lambda p, c: seen.append(p) or query.gradients(p, c), 4)
    rounds.release(watched, positions, y)
    drawn = np.concatenate(seen)
    assert 0 < (drawn >= 0).sum() < 13
    assert len(set(drawn[drawn >= 0])) == (drawn >= 0).sum()


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


CLIP = 0.4
COUNT = 12


def network():
    """Convolutions, linear and normalisation layers of the kinds that the other library knows."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return tiny_network(
            nn.Sequential(nn.Conv2d(3, 6, 3, stride=2), nn.GroupNorm(2, 6), nn.ReLU()),
            nn.Sequential(nn.Conv2d(6, 8, 3, padding=1), nn.GroupNorm(2, 8), nn.ReLU()),
            nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 10), nn.LayerNorm(10)),
        )


class WithHead(nn.Module):
    """The network with its head, as the other library trains it."""

    def __init__(self, trunk, head):
        super().__init__()
        self.trunk, self.head = trunk, nn.Linear(*reversed(head.shape), bias=False)
        self.head.weight.data = torch.from_numpy(head).float()

    def forward(self, inputs):
        return self.head(nn.functional.normalize(self.trunk(inputs)))


def ours(parts, theta, micro_batch):
    loss = PictureLoss(Pictures(parts, pictures(COUNT), micro_batch=micro_batch))
    query = NetworkGradient(parts.size, loss.gradients_at(theta), micro_batch, CLIP)
    return query(np.arange(COUNT), labels(COUNT)) * CLIP / query.grid


def theirs(parts, theta, micro_batch):
    model = WithHead(parts.network.module, parts.head(theta)).requires_grad_(False)
    model.train()  # which its hooks ask for, and these layers do not notice
    norms = (nn.GroupNorm, nn.LayerNorm)
    for part in model.modules():
        if parts.train == "all" or part is model.head or (parts.train == "film" and isinstance(part, norms)):
            part.requires_grad_(True)
    # In another layout torch 2.13 crashes where scales are trained and the inputs of their layer are not.
    inputs = parts.network.inputs(pictures(COUNT)).contiguous()
    y = torch.from_numpy(labels(COUNT))
    total = 0.0
    samples = pytest.importorskip("opacus.grad_sample")  # here, since loading it takes seconds
    wrapped = samples.GradSampleModule(model, loss_reduction="sum")
    trained = [one for one in wrapped.parameters() if one.requires_grad]
    for start in range(0, COUNT, micro_batch):
        chunk = slice(start, start + micro_batch)
        wrapped.zero_grad()
        nn.functional.cross_entropy(wrapped(inputs[chunk]), y[chunk], reduction="sum").backward()
        each = torch.cat([one.grad_sample.flatten(1) for one in trained], dim=1)
        factors = (CLIP / each.norm(dim=1)).clamp(max=1)
        total = total + (factors[:, None] * each).sum(dim=0)
    return total.detach().numpy()


@pytest.mark.filterwarnings("ignore")  # theirs
@pytest.mark.parametrize("train", ["film", "last", "all"])
def test_summed_gradients_are_those_of_opacus(train):
    micro_batch = 5  # in three accumulation steps
    parts = TrainedParts(network(), train, CLASSES)
    parts._units.fill_(1.0)  # the other library knows no units
    theta = np.zeros(parts.size)
    theta[parts.trunk :] = somewhere(parts)[parts.trunk :]
    found = ours(parts, theta, micro_batch)
    assert np.allclose(found, theirs(parts, theta, micro_batch), atol=1e-5)
    assert np.linalg.norm(found) > 0.3
