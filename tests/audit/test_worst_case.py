"""Every method that adds noise to sums, against the attacker of `witness`, and against bugs planted in it."""

from dataclasses import replace

import numpy as np
import pytest

from dptransfer.audit.lower_bound import excess_over_claim, gaussian_epsilon
from dptransfer.data import PrivateEmbeddings, PublicEmbeddings
from dptransfer.exact.feature_map import UnitNorm
from dptransfer.exact.gradient_sums import RESIDUAL_NORM, whole_numbers
from dptransfer.exact.softmax import probabilities
from dptransfer.ledger import Ledger
from dptransfer.mechanisms import RoundsLeft
from dptransfer.methods import METHODS, FromNames, LanguageInit, OnlyPublic
from dptransfer.methods.heads import start
from dptransfer.methods.method import Task
from dptransfer.noise import SeededNoise
from dptransfer.privacy import Budget, Relation
from dptransfer.queries import softmax_gradient
from dptransfer.sources import PrivateImages

from .witness import (
    CLASSES,
    DELTA,
    EAST,
    EPSILON,
    FEATURES,
    SHOTS,
    SOMEBODY,
    holding,
    method_of,
    over_rounds,
    over_runs,
    witnessing,
)

OF_ROUNDS = ("noisy-gd", "adamix", "fully-private", "ngd", "ppgd")
SAMPLED = ("dpsgd", "global-adapt")
OF_RUNS = ("mean", "mean-estimation", "least-squares", "feature-covariance", "newton")
ADD, REPLACE = Relation.ADD_REMOVE, Relation.REPLACE_ONE


class Quieter(SeededNoise):
    """Half the noise."""

    def discrete_gaussian(self, scale, shape):
        return super().discrete_gaussian(scale / 2, shape)


class Unbounded:
    """A feature map that forgets to bring rows to norm 1."""

    dimension = input_dimension = FEATURES.dimension

    def lattice(self, rows, norm):
        return np.rint(3 * rows * norm).astype(np.int64)


def without_clipping(rows, labels, logits, clip, inputs=None, weights=None):
    residual = probabilities(rows, logits) - np.eye(len(logits.linear))[:, labels]
    grid = np.trunc(residual * (RESIDUAL_NORM / clip))
    return whole_numbers(grid @ (rows if inputs is None else inputs))


@pytest.fixture
def no_clip(monkeypatch):
    monkeypatch.setattr(softmax_gradient, "clipped_gradient", without_clipping)


def gaussian(found):
    """ε from below at the claim's δ."""
    _, *samples = found
    return gaussian_epsilon(*samples, DELTA)


def excess(found):
    events, *samples = found
    return excess_over_claim(*samples, events)


@pytest.mark.parametrize("relation", Relation)
@pytest.mark.parametrize("name", OF_ROUNDS)
def test_rounds_of_gradients_keep_their_promise_and_half_the_noise_is_caught(name, relation):
    honest, quiet = over_rounds(name, relation, 500), over_rounds(name, relation, 500, noise=Quieter)
    assert 0.5 * EPSILON < gaussian(honest) <= EPSILON
    assert excess(honest) <= 0
    assert gaussian(quiet) > EPSILON
    assert excess(quiet) > 0


@pytest.mark.parametrize("name", [*OF_ROUNDS, *SAMPLED])
def test_gradients_that_are_not_clipped_are_caught(name, no_clip):
    assert excess(over_rounds(name, ADD, 300)) > 0


@pytest.mark.parametrize("relation", Relation)
@pytest.mark.parametrize("name", SAMPLED)
def test_sampled_rounds_keep_their_promise_and_half_the_noise_is_caught(name, relation):
    assert excess(over_rounds(name, relation, 900)) <= 0
    assert excess(over_rounds(name, relation, 900, noise=Quieter)) > 0


def test_counts_before_rounds_keep_their_promise_and_half_the_noise_is_caught():
    assert 0.5 * EPSILON < gaussian(over_runs("adamix", ADD, 250, count_share=0.5)) <= EPSILON
    assert gaussian(over_runs("adamix", ADD, 250, count_share=0.5, noise=Quieter)) > EPSILON


@pytest.mark.parametrize("name", OF_RUNS)
def test_single_releases_keep_their_promise_and_half_the_noise_is_caught(name):
    assert 0.3 * EPSILON < gaussian(over_runs(name, ADD, 250)) <= EPSILON
    assert gaussian(over_runs(name, ADD, 250, noise=Quieter)) > EPSILON


@pytest.mark.parametrize("name", ["mean", "mean-estimation"])
def test_rows_that_are_not_brought_to_norm_one_are_caught(name):
    assert gaussian(over_runs(name, ADD, 150, features=Unbounded())) > EPSILON


@pytest.mark.parametrize("name", ["least-squares", "feature-covariance"])
def test_rows_that_are_too_long_do_no_harm_where_they_are_checked_once_more(name):
    assert gaussian(over_runs(name, ADD, 20, features=Unbounded())) == 0


@pytest.mark.parametrize(("name", "cosine"), [("least-squares", -1 / 8), ("feature-covariance", -1.0)])
def test_joint_releases_keep_their_promise_under_replace_one_and_half_the_noise_is_caught(name, cosine):
    pair = SOMEBODY, holding(np.array([[cosine, np.sqrt(1 - cosine**2)]]))
    assert 0.4 * EPSILON < gaussian(over_runs(name, REPLACE, 250, pair=pair)) <= EPSILON
    assert gaussian(over_runs(name, REPLACE, 250, pair=pair, noise=Quieter)) > EPSILON


@pytest.mark.slow
def test_newton_steps_keep_their_promise_and_half_the_noise_is_caught():
    """The second step's questions depend on the first one's answers, so no law is assumed."""
    assert excess(over_runs("newton", ADD, 300, steps=2)) <= 0
    assert excess(over_runs("newton", ADD, 500, steps=2, noise=Quieter)) > 0


def one_more_round(plan):
    (paid,) = plan.mechanisms
    return replace(plan, mechanisms=(replace(paid, times=paid.times + 1),))


def test_a_round_that_was_not_paid_for_is_caught():
    assert gaussian(over_runs("noisy-gd", ADD, 600, change=one_more_round)) > EPSILON


def test_an_answer_divided_by_the_realised_size_of_its_sample_is_caught(monkeypatch):
    """Rows of zeros at both sides: they add nothing to a sum, and to the size of a sample as much as any.

    The noise shrinks with the sample, so small answers betray one more row.
    """
    width, rate = 60, 0.9
    many, fewer = (
        PrivateEmbeddings(np.zeros((count, width)), [1] * count, classes=CLASSES, size=2, name="audit")
        for count in (2, 1)
    )
    method = replace(method_of("dpsgd"), sampling_rate=rate)
    features = UnitNorm().fit(width, None)
    promised = method.plan(many.facts, Budget(epsilon=EPSILON, delta=DELTA))
    (paid,) = promised.mechanisms
    plan = replace(promised, mechanisms=(replace(paid, times=400),))

    def smallness():
        samples = []
        for seed, private in enumerate((many, fewer)):
            with witnessing() as shown:
                method.run(Task(plan, features, private, SeededNoise(seed), None))
            samples.append([-np.linalg.norm(step.answer) for step in shown])
        return excess_over_claim(*samples, promised.events)

    assert smallness() <= 0
    release, sampled = RoundsLeft.release, SeededNoise.poisson_sample
    sizes = []

    def listening(self, count, rate):
        chosen = sampled(self, count, rate)
        sizes.append(max(1, len(chosen)))
        return chosen

    monkeypatch.setattr(SeededNoise, "poisson_sample", listening)
    monkeypatch.setattr(RoundsLeft, "release", lambda *given: release(*given) / sizes[-1])
    assert smallness() > 0


@pytest.mark.parametrize("method", [OnlyPublic(), LanguageInit(start=FromNames("tower"))])
def test_methods_that_read_no_private_row_give_neighbours_the_same_model(method, monkeypatch):
    monkeypatch.setattr(start, "encoded_names", lambda *given: np.array([[1.0, 0.2], [-0.3, 1.0]]))
    shots = PublicEmbeddings(SHOTS.rows, SHOTS.labels, classes=["a", "b"])
    budget, heads = Budget(epsilon=1.0, delta=DELTA), []
    for rows in (EAST, EAST[:0], -EAST):
        private = PrivateEmbeddings(rows, [1] * len(rows), classes=["a", "b"], name="audit")
        model = method.fit(private, shots, budget=budget, ledger=Ledger.in_memory(), noise=SeededNoise(0))
        assert model.guarantee.epsilon == 0
        heads.append(model.head.weights)
    assert (heads[0] == heads[1]).all()
    assert (heads[0] == heads[2]).all()
    assert heads[0].any()


def taught(rows, labels):
    return PrivateEmbeddings(rows, labels, classes=CLASSES, size=1, name="audit")


ALONE, JOINED = taught(-EAST, [0]), taught(np.vstack([-EAST, EAST]), [0, 1])
"""The only teacher takes everything for the first class, until a row turns it on both questions."""


VOTING = ["transfer-pate", "private-knn"]


@pytest.mark.parametrize("name", VOTING)
def test_votes_keep_their_promise_and_half_the_noise_is_caught(name):
    asked = {"pair": (JOINED, ALONE), "teachers": 1, "queries": 2, "self_training": False}
    assert 0.5 * EPSILON < gaussian(over_runs(name, ADD, 250, **asked)) <= EPSILON
    assert gaussian(over_runs(name, ADD, 150, noise=Quieter, **asked)) > EPSILON


SUMS_FIRST = {"warm-start": {"sampling_rate": 1.0, "steps": 1, "share": 0.9}, "projection": {"steps": 2}}


@pytest.mark.parametrize("name", SUMS_FIRST)
def test_sums_before_steps_keep_their_promise_and_half_the_noise_is_caught(name):
    settings = SUMS_FIRST[name]
    assert 0.3 * EPSILON < gaussian(over_runs(name, ADD, 250, **settings)) <= EPSILON
    assert gaussian(over_runs(name, ADD, 250, noise=Quieter, **settings)) > EPSILON


AUDITED = {
    *OF_ROUNDS,
    *SAMPLED,
    *OF_RUNS,
    *SUMS_FIRST,
    "only-public",
    "language",
    "transfer-pate",
    "private-knn",
}
ELSEWHERE = {"coinpress", "public", "top-k", "public-prior"}
"""In `tests/contracts/test_audit.py`."""


PICTURES = {name for name, kind in METHODS.items() if kind.takes is PrivateImages}
"""Noise and votes are those audited here; what a picture or a person adds, in `contracts/test_people.py`."""


def test_every_method_is_audited():
    assert AUDITED | ELSEWHERE | PICTURES == set(METHODS) - {"auto"}  # which runs one of the others
