import numpy as np
import pytest

from dptransfer.methods.votes.voting import TeacherAnswers, _regressed, linear_student

CLASSES, WIDTH = 4, 12
RNG = np.random.default_rng(0)
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


def test_more_questions_cost_nothing_as_their_noise_is_averaged_out():
    few, many = (
        np.mean([accuracy(answers(count, 6.0 * np.sqrt(count), seed=seed)) for seed in range(6)])
        for count in (150, 1500)
    )
    assert many > few
    assert few < 0.7  # there is something to lose


def test_how_often_teachers_choose_a_class_decides_nothing():
    told = answers(300, scale=5.0)
    popular = TeacherAnswers(told.positions, told.labels, told.votes + np.array([500, 0, 0, 0]), 5.0, 100)
    assert accuracy(popular) == accuracy(told)


@pytest.mark.parametrize("signal", [0.0, 0.3, 3.0])
def test_the_ridge_follows_the_signal_that_the_votes_show(signal):
    rng = np.random.default_rng(5)
    x = rng.normal(size=(400, 20))
    truth = signal * rng.normal(size=(3, 20))
    found = _regressed(x, x @ truth.T + rng.normal(size=(400, 3)), 1.0)
    off = np.sqrt(np.square(found.weights - truth).mean())
    plain = np.sqrt(
        np.square(np.linalg.lstsq(x, x @ truth.T + rng.normal(size=(400, 3)))[0].T - truth).mean()
    )
    assert off < 1.2 * plain
    believed = np.sqrt(np.trace(found.covariance) / 20)
    assert off < 3 * believed + 0.01
    if signal == 0:
        assert off < plain / 3


def test_noise_is_never_believed_to_be_less_than_is_known():
    x = np.random.default_rng(6).normal(size=(50, 4))
    exact = x @ np.ones((4, 2))
    assert np.trace(_regressed(x, exact, 0.0).covariance) < 1e-6
    assert np.trace(_regressed(x, exact, 1.0).covariance) > 0.05


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


def test_the_same_answers_make_the_same_student():
    told = answers(300, scale=50.0)
    one, other = (student_of(told, soft=True, self_training=True) for _ in range(2))
    assert (one.weights == other.weights).all()
    assert (one.offset == other.offset).all()
    assert one.temperature == other.temperature
