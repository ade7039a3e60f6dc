from dataclasses import dataclass, replace

import numpy as np
import pytest

from contracts.pictures import quick
from dptransfer.accounting import epsilon_of, epsilon_of_mu, mu_for
from dptransfer.audit.instance_loss import instance_losses, own_epsilons
from dptransfer.data import Labelled, PrivateEmbeddings, PublicEmbeddings
from dptransfer.errors import ArgumentError, DPTransferError
from dptransfer.exact.feature_map import UnitNorm
from dptransfer.mechanisms.row_shares import RowShares
from dptransfer.methods import METHODS, MeanPrototypes, PublicPrototypes
from dptransfer.methods.votes.voting import Voting
from dptransfer.noise import SecureNoise, SeededNoise
from dptransfer.privacy import (
    BestOfManyEvent,
    Budget,
    GaussianEvent,
    Relation,
    SampledGaussianEvent,
    SelectionEvent,
    Unit,
)
from dptransfer.queries.query import BoundedQuery
from dptransfer.sources import PrivateImages

ADD, REPLACE = Relation.ADD_REMOVE, Relation.REPLACE_ONE
DELTA = 1e-5
ZERO, LONG = 0, 1
"""Positions of a row that contributes nothing to sums, and of one labelled against its features."""


def example():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 60)
    centres = np.eye(3, 6) * 3
    x = centres[y] + rng.normal(size=(60, 6))
    x[ZERO], x[LONG], y[LONG] = 0.0, centres[0], 1
    shots = np.repeat([0, 1, 2], 3)
    public = PublicEmbeddings(centres[shots] + rng.normal(size=(9, 6)), shots, classes=range(3))
    sizes = np.bincount(y, minlength=3)
    return PrivateEmbeddings(x, y, classes=range(3), size=60, class_counts=sizes, name="example"), public


PRIVATE, PUBLIC = example()
VOTING = {name for name, kind in METHODS.items() if issubclass(kind, Voting)}
CASES = [
    (name, relation)
    for name in METHODS
    for relation in Relation
    if name not in {"language", *VOTING} and (name, relation) not in {("coinpress", ADD), ("auto", REPLACE)}
]


def small(name, **settings):
    """The method as it comes; on pictures with a tiny network, and on samples with few steps."""
    if METHODS[name].takes is PrivateImages:
        return quick(METHODS[name])
    return METHODS[name](**settings, **{"steps": 12} if hasattr(METHODS[name], "sampling_rate") else {})


def losses(method, relation=ADD, epsilon=1.0, private=PRIVATE, **amount):
    budget, public = Budget(epsilon=epsilon, relation=relation, **(amount or {"delta": DELTA})), PUBLIC
    if method.takes is PrivateImages:
        shape = len(private.labels), 8, 8, 3
        public, pixels = None, np.random.default_rng(3).integers(0, 256, shape, dtype=np.uint8)
        own = Labelled(private.labels, private.facts.classes)
        private = PrivateImages(pixels, own, name=private.name, people=private.people)
    return instance_losses(method, private, public, budget=budget, noise=SeededNoise(1))


@pytest.mark.parametrize("name", sorted(VOTING))
def test_votes_of_teachers_have_no_losses_by_row(name):
    with pytest.raises(ArgumentError, match="losses by row"):
        losses(METHODS[name]())


def test_gaussian_losses_follow_the_exact_curve():
    """Features of any norm below 1, by a map that does not raise them."""
    found = losses(replace(MeanPrototypes(), features=Shrunk()))
    norms = np.minimum(np.linalg.norm(PRIVATE.rows, axis=1) / 10, 1)
    exact = [epsilon_of_mu(norm * mu_for(1.0, DELTA), DELTA) if norm else 0.0 for norm in norms]
    assert found.epsilons == pytest.approx(exact, rel=1e-2)
    assert (found.epsilons >= np.array(exact) * (1 - 1e-6)).all()
    assert np.ptp(found.epsilons[2:]) > 0.1


@dataclass(frozen=True)
class Shrunk:
    """A tenth of the row, clipped to norm 1."""

    def output_dimension(self, width, public):
        return width

    def fit(self, width, public):
        return ShrunkRows(width, width)


@dataclass(frozen=True)
class ShrunkRows:
    dimension: int
    input_dimension: int

    def lattice(self, rows, norm):
        scaled = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 10)
        return np.trunc(scaled * norm).astype(np.int64)

    def arrays(self):
        return {}

    def settings(self):
        return {}


def test_a_selection_charges_a_row_by_the_range_of_its_scores():
    lowest, highest = 0.5, 1.5
    found = losses(PublicPrototypes(lowest=lowest, highest=highest), epsilon=0.5, delta=0.0)
    cosines = PRIVATE.rows @ PUBLIC.rows.T
    cosines /= np.linalg.norm(PUBLIC.rows, axis=1)
    cosines /= np.maximum(np.linalg.norm(PRIVATE.rows, axis=1, keepdims=True), 1e-12)
    ranges = np.ptp(np.clip(1 + cosines, lowest, highest), axis=1) / (highest - lowest)
    assert found.epsilons == pytest.approx(0.5 * ranges, abs=5e-3)


def test_an_empty_data_set_has_no_losses():
    empty = PrivateEmbeddings(PRIVATE.rows[:0], [], classes=range(3), name="empty")
    found = losses(MeanPrototypes(), private=empty)
    assert (len(found.epsilons), found.worst, found.share_below_half, found.quantile(0.5)) == (0, 0, 0, 0)


def test_only_seeded_noise_is_taken():
    with pytest.raises(ArgumentError, match="SeededNoise"):
        instance_losses(
            MeanPrototypes(), PRIVATE, budget=Budget(epsilon=1.0, delta=DELTA), noise=SecureNoise()
        )


def test_a_row_that_moves_more_than_was_paid_for_is_reported():
    paid = GaussianEvent(2.0, ADD)
    fair, one_more = [RowShares(paid, np.array([1.0]))], [RowShares(paid, np.array([1.0]))] * 2
    assert own_epsilons([paid], fair, 1, DELTA) == pytest.approx(epsilon_of([paid], DELTA))
    for entries in (one_more, [RowShares(paid, np.array([1.01]))]):  # a round too many; a row too long
        with pytest.raises(DPTransferError, match="was paid for"):
            own_epsilons([paid], entries, 1, DELTA)


def test_releases_that_are_paid_for_together_cost_a_row_no_more_than_their_price():
    """Each by itself could cost it more; a row that is too long for one of them is still a fault."""
    paid = GaussianEvent(2.0, Relation.REPLACE_ONE)
    part = GaussianEvent(2.5, Relation.REPLACE_ONE)
    together = [RowShares(part, np.array([0.1, 1.0]), is_part=True)] * 2
    short, worst = own_epsilons([paid], together, 2, DELTA)
    assert worst == pytest.approx(epsilon_of([paid], DELTA))
    assert 0 < short < 0.2 * worst
    with pytest.raises(DPTransferError, match="was paid for"):
        own_epsilons([paid], [RowShares(part, np.array([0.1, 1.01]), is_part=True)], 2, DELTA)


def test_sampled_steps_are_bounded_by_the_accountant_and_by_divergences():
    step = SampledGaussianEvent(1.0, 0.2, 1, ADD)
    paid = replace(step, times=10)
    shares = np.array([0.0, 0.3, 1.0, 1.0])
    steady = [RowShares(step, shares)] * 10
    falling = [RowShares(step, shares * [1, 1, 1, 1 if turn == 0 else 0.1]) for turn in range(10)]
    full = epsilon_of([paid], DELTA)
    constant, varied = own_epsilons([paid], steady, 4, DELTA), own_epsilons([paid], falling, 4, DELTA)
    assert constant[[0, 2]] == pytest.approx([0.0, full])
    exact = epsilon_of([replace(paid, noise_multiplier=1 / 0.3)], DELTA)
    assert exact * (1 - 1e-6) <= constant[1] <= 1.15 * exact
    # One step at full length and nine at a tenth: the divergences see that, the largest share does not.
    assert varied[3] < 0.8 * constant[3]
    alone = epsilon_of([step, replace(step, noise_multiplier=10.0, times=9)], DELTA)
    assert alone * (1 - 1e-6) <= varied[3]


def test_steps_of_several_kinds_are_charged_by_the_largest_share():
    noise, choice = GaussianEvent(2.0, ADD), SelectionEvent(0.5, ADD, True, "exponential")
    entries = [RowShares(noise, np.array([1.0, 0.5, 0.0])), RowShares(choice, np.array([0.25, 0.25, 0.0]))]
    found = own_epsilons([noise, choice], entries, 3, DELTA)
    assert found[0] == pytest.approx(epsilon_of([noise, choice], DELTA))
    half = [replace(noise, noise_multiplier=4.0), replace(choice, epsilon=0.25)]
    assert found[1] == pytest.approx(epsilon_of(half, DELTA))
    assert found[2] == 0.0


def test_a_tuned_method_has_no_losses_by_row():
    tuned = BestOfManyEvent(((GaussianEvent(2.0, ADD),),), mean_trials=3.0, shape=1.0)
    with pytest.raises(ArgumentError, match="trials are forgotten"):
        own_epsilons([tuned], [], 1, DELTA)


def of_persons():
    """Somebody with rows of zeros, somebody with forty that are long, fifteen with a few in all classes."""
    rng = np.random.default_rng(2)
    people = np.concatenate([[0] * 3, [1] * 40, 2 + rng.integers(0, 15, 57)])
    y = rng.integers(0, 3, 100)
    x = np.eye(3, 6)[y] * 3 + rng.normal(size=(100, 6))
    x[:3], x[3:43], y[3:43] = 0.0, 3 * np.eye(1, 6), 1
    return PrivateEmbeddings(
        x, y, classes=range(3), people=people, size=100, rows_per_person=6, name="people"
    )


PERSONS = of_persons()
OF_PERSONS = [
    (name, relation)
    for name, relation in CASES
    if Unit.PERSON in METHODS[name].units and name not in {"auto", "only-public"}
]


ROWS_AND_PERSONS = [
    *((name, relation, PRIVATE, 60) for name, relation in CASES),
    *((name, relation, PERSONS, 17) for name, relation in OF_PERSONS),
]


@pytest.mark.parametrize(("name", "relation", "private", "count"), ROWS_AND_PERSONS)
def test_nobody_loses_more_than_was_promised(name, relation, private, count):
    found = losses(small(name), relation, private=private)
    assert len(found.epsilons) == count
    assert found.guarantee.unit is private.facts.unit
    assert (found.epsilons >= 0).all()
    assert (found.epsilons <= found.guarantee.epsilon * (1 + 1e-9)).all()
    if name != "only-public":
        assert found.worst > (0.6 if private is PRIVATE else 0.5) * found.guarantee.epsilon


SUMS = ["mean", "noisy-gd", "dpsgd", "least-squares", "public"]


@pytest.mark.parametrize(
    ("name", "private"),
    [(name, PRIVATE) for name in (*SUMS, "adamix")] + [(name, PERSONS) for name in (*SUMS, "top-k")],
)
def test_who_contributes_nothing_loses_nothing(name, private):
    found = losses(small(name, features=UnitNorm()), private=private)  # a map puts zeros somewhere
    assert found.epsilons[ZERO] == 0.0
    assert (np.delete(found.epsilons, ZERO) > 0).all()


@pytest.mark.parametrize("private", [PRIVATE, PERSONS], ids=["row", "person"])
@pytest.mark.parametrize("name", ["mean", "noisy-gd", "ngd", "dpsgd"])
def test_the_worst_row_and_forty_long_ones_of_a_person_lose_all_that_was_promised_and_no_more(name, private):
    found = losses(small(name, **{} if name == "mean" else {"clip": 0.05}), private=private)
    assert 0.99 * found.guarantee.epsilon <= found.epsilons[LONG] <= found.guarantee.epsilon


def test_a_person_with_forty_rows_bounded_singly_is_reported(monkeypatch):
    def singly(self, rows, labels, people):
        return self.of_people(rows, labels, np.arange(len(rows)))

    monkeypatch.setattr(BoundedQuery, "__call__", singly)
    with pytest.raises(DPTransferError, match="was paid for"):
        losses(MeanPrototypes(), private=PERSONS)
