import numpy as np
import pytest

from dptransfer.errors import ArgumentError
from dptransfer.mechanisms import GaussianRounds
from dptransfer.methods.deep.network_gradient import NetworkGradient
from dptransfer.methods.deep.picture_loss import PictureLoss, Pictures
from dptransfer.methods.deep.trained_parts import TRAINED, TrainedParts
from dptransfer.noise import SeededNoise
from dptransfer.privacy import Bound, Relation, Unit

from .toys import CLASSES, labels, pictures, somewhere, tiny_network

PERSON = Bound(Unit.PERSON)


def asked(train="film", count=13, *, pixels=None, micro_batch=4, clip=1.0, far=1.0, network=None, **settings):
    """A question about so many pictures, and the pictures' positions and labels."""
    pixels = pictures(count) if pixels is None else pixels
    parts = TrainedParts(network or tiny_network(), train, CLASSES, rank=2)
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


def test_a_clip_that_is_none_is_refused():
    with pytest.raises(ArgumentError):
        NetworkGradient(clip=0.0)
