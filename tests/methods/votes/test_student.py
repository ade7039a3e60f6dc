import numpy as np
import pytest

from dptransfer.methods.votes.voting import TeacherAnswers, linear_student

CLASSES, WIDTH = 4, 12
CENTRES = np.eye(CLASSES, WIDTH)


def rows_of(count, seed, spread=0.5):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, CLASSES, count)
    x = CENTRES[y] + rng.normal(0, spread, (count, WIDTH))
    return x / np.linalg.norm(x, axis=1, keepdims=True), y


POOL, TRUTH = rows_of(1500, 1)
TEST, TEST_TRUTH = rows_of(2000, 2)


def answers(questions, scale, teachers=100, agree=0.6, seed=3):
    """Teachers that agree so often, and otherwise vote for any class, behind noise."""
    shares = np.full((questions, CLASSES), (1 - agree) / CLASSES)
    shares[np.arange(questions), TRUTH[:questions]] += agree
    votes = teachers * shares + np.random.default_rng(seed).normal(0, scale, shares.shape)
    return TeacherAnswers(np.arange(questions), votes.argmax(axis=1), votes, scale, teachers)


def student_of(told, soft=True, self_training=False):
    return linear_student(POOL.__getitem__, len(POOL), told, soft=soft, self_training=self_training)


def accuracy(told, **how):
    head = student_of(told, **how)
    return float((head.scores(TEST).argmax(axis=1) == TEST_TRUTH).mean())


def test_a_student_learns_from_votes_and_from_labels():
    clear = answers(300, scale=5.0)
    assert accuracy(clear) > 0.75
    assert accuracy(clear, soft=False) > 0.75
    upside_down = TeacherAnswers(clear.positions, clear.votes.argmin(axis=1), -clear.votes, 5.0, 100)
    assert accuracy(upside_down) < 0.1


def test_votes_tell_more_than_labels_where_noise_is_large():
    told = answers(1000, scale=250.0)
    assert (told.labels == TRUTH[:1000]).mean() < 0.4
    assert accuracy(told) > accuracy(told, soft=False) + 0.04


def test_self_training_adds_rows_that_are_sure_and_leaves_all_as_it_is_where_none_are():
    told = answers(200, scale=100.0)
    assert accuracy(told, self_training=True) > accuracy(told)
    nothing = answers(200, scale=1e5, seed=0)
    heads = [student_of(nothing, soft=True, self_training=one).weights for one in (False, True)]
    assert (heads[0] == heads[1]).all()


@pytest.mark.parametrize("questions", [0, 1, 2])
@pytest.mark.parametrize("soft", [True, False])
def test_few_answers_or_none_make_a_student_all_the_same(questions, soft):
    told = answers(questions, scale=1.0)
    head = student_of(told, soft=soft, self_training=True)
    assert np.isfinite(head.scores(TEST)).all()
    assert head.temperature > 0
