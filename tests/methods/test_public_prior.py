"""Counts, sums and steps in shares: what is decided from noisy counts, and that nothing else is looked at."""

import math
from dataclasses import dataclass, replace

import numpy as np
import pytest

from dptransfer.data import PrivateEmbeddings, PublicEmbeddings
from dptransfer.data.facts import Facts
from dptransfer.errors import ArgumentError, BudgetError
from dptransfer.features import FittedPublicMap, PublicMap, UnitNorm
from dptransfer.ledger import Ledger
from dptransfer.mechanisms import SharesLeft
from dptransfer.methods import MeanPrototypes, PublicPriorPrototypes, hierarchical, public_prior
from dptransfer.noise import SeededNoise
from dptransfer.privacy import Budget, Relation, Unit
from dptransfer.queries import ClassCounts, ClassSums, SoftmaxGradient, WeightedClassSums, WeightedTotal
from dptransfer.release import read_release

from .samples import Watched

CLASSES, WIDTH = 4, 24
BUDGET = Budget(epsilon=1.0, delta=1e-5)
REPLACE = replace(BUDGET, relation=Relation.REPLACE_ONE)
SMALL = PublicPriorPrototypes(features=PublicMap(axes=16), fewest_axes=4)
SPREAD = np.geomspace(1, 0.1, WIDTH)
CENTRES = np.random.default_rng(0).normal(size=(CLASSES, WIDTH)) * SPREAD


def rows(labels, seed=0):
    noise = np.random.default_rng(seed).normal(size=(len(labels), WIDTH))
    return CENTRES[labels] + noise * SPREAD


POOL = PublicEmbeddings(rows(np.arange(1000) % CLASSES, seed=1))


def private(counts, seed=2):
    labels = np.repeat(np.arange(CLASSES), counts)
    return PrivateEmbeddings(rows(labels, seed), labels, classes=range(CLASSES), name="samples")


STRONG, WEAK = private([500] * CLASSES), private([30] * CLASSES)


def fit(method, data, budget=BUDGET, public=POOL, seed=1, noise=None):
    noise = noise or SeededNoise(seed)
    return method.fit(data, public, budget=budget, ledger=Ledger.in_memory(), noise=noise)


@dataclass(frozen=True)
class Release:
    query: object
    share: float
    scale: float
    rows: np.ndarray
    answer: np.ndarray


class Listening(SeededNoise):
    """Seeded noise that tells the last scale it was asked for."""

    def discrete_gaussian(self, scale, shape):
        self.scale = scale
        return super().discrete_gaussian(scale, shape)


@pytest.fixture
def spy(monkeypatch):
    """Everything that goes through a purse, in order."""
    seen, release = [], SharesLeft.release

    def listening(purse, query, share, x, y, people=None):
        answer = release(purse, query, share, x, y, people)
        seen.append(Release(query, share, getattr(purse.noise, "scale", 0) / query.grid, x, answer))
        return answer

    monkeypatch.setattr(SharesLeft, "release", listening)
    return seen


def kinds(seen):
    return [type(made.query) for made in seen]


def test_a_strong_signal_takes_steps_in_more_axes(spy):
    model = fit(SMALL, STRONG)
    assert kinds(spy) == [ClassCounts, WeightedTotal, ClassSums, *[SoftmaxGradient] * SMALL.steps]
    assert model.features.dimension == 16
    assert model.provenance.notes == (
        "Spent 3% of the budget on counts, 2% on the centre, 37% on sums in 16 axes, "
        "58% on 15 gradient steps; "
        "decided from the noisy counts.",
    )


def test_a_weak_signal_takes_no_steps_and_keeps_few_axes(spy):
    model = fit(SMALL, WEAK)
    assert kinds(spy) == [ClassCounts, WeightedTotal, ClassSums]
    assert model.features.dimension == 4
    assert model.provenance.notes == (
        "Spent 3% of the budget on counts, 2% on the centre, 95% on sums in 4 axes; "
        "decided from the noisy counts.",
    )


def test_between_the_two_axes_double_but_no_step_is_taken(spy):
    """60 less one standard deviation of 22 is above 3.7·√16 and below twice 3.7·√16 ÷ √0.6."""
    model = fit(replace(SMALL, step_threshold=2.0), private([60] * CLASSES))
    assert kinds(spy) == [ClassCounts, WeightedTotal, ClassSums]
    assert model.features.dimension == 16


def test_a_lower_threshold_takes_steps_there(spy):
    fit(replace(SMALL, step_threshold=1.0, steps=3), private([60] * CLASSES))
    assert SoftmaxGradient in kinds(spy)


def test_no_step_is_taken_along_what_is_mostly_noise(spy):
    """240 rows are 3.5 times the noise of one of 3 steps, 3.7·√(4·16) ÷ √(0.58/3); one of 15: 1.6 times."""
    fit(replace(SMALL, step_threshold=1.0, steps=15), private([60] * CLASSES))
    assert SoftmaxGradient not in kinds(spy)


class Planted(SeededNoise):
    """Lets the noisy counts be what the test wants, whatever the data; then seeded noise."""

    def __init__(self, counts, data):
        super().__init__(1)
        self.shift = np.asarray(counts) - np.bincount(data.labels, minlength=CLASSES)

    def discrete_gaussian(self, scale, shape):
        if shape == (CLASSES,):
            return self.shift * 2**30
        return super().discrete_gaussian(scale, shape)


@pytest.mark.parametrize("truth", [STRONG, WEAK], ids=["strong", "weak"])
def test_the_branch_follows_the_noisy_counts_and_not_the_true_ones(truth, spy):
    fit(SMALL, truth, noise=Planted([500, 400, 500, 600], truth))
    assert kinds(spy).count(SoftmaxGradient) == SMALL.steps
    spy.clear()
    fit(SMALL, truth, noise=Planted([30, -9, 25, 18], truth))
    assert kinds(spy).count(SoftmaxGradient) == 0


def test_one_small_class_is_enough_to_leave_out_the_steps(spy):
    fit(SMALL, private([500, 500, 500, 2]))
    assert SoftmaxGradient not in kinds(spy)
    spy.clear()
    fit(replace(SMALL, steps=0), STRONG)
    assert SoftmaxGradient not in kinds(spy)


SETTINGS = (
    SMALL,
    PublicPriorPrototypes(features=UnitNorm()),
    replace(SMALL, count_share=0.2, sum_share=0.1, steps=1),
    replace(SMALL, count_share=1 / 3, sum_share=1 / 3, steps=7),
    replace(SMALL, steps=0),
    replace(SMALL, centre_share=0.0),
    replace(SMALL, centre_share=0.3),
)


@pytest.mark.parametrize("method", SETTINGS, ids=range(len(SETTINGS)))
@pytest.mark.parametrize("data", [STRONG, WEAK], ids=["strong", "weak"])
def test_the_shares_add_up_to_one_on_every_path(method, data, spy):
    fit(method, data)
    assert math.fsum(made.share for made in spy) == pytest.approx(1.0, abs=1e-12)


def test_a_share_that_is_not_there_stops_the_run():
    """The half that can fail: a run that counts once more is refused by the purse, and has failed."""

    @dataclass(frozen=True)
    class Greedy(PublicPriorPrototypes):
        def _descend(self, model, purse, mapped, private):
            purse.release(ClassCounts(CLASSES), 0.01, private.rows, private.labels)
            return super()._descend(model, purse, mapped, private)

    ledger = Ledger.in_memory()
    greedy = Greedy(features=UnitNorm(), steps=3)
    with pytest.raises(BudgetError, match="Shares"):
        greedy.fit(STRONG, POOL, budget=BUDGET, ledger=ledger, noise=SeededNoise(1))
    assert ledger.history()[0].outcome == "failed"
    assert fit(PublicPriorPrototypes(features=UnitNorm(), steps=3), STRONG)


@pytest.mark.parametrize(("budget", "counts", "sums"), [(BUDGET, 1.0, 1.0), (REPLACE, math.sqrt(2), 2.0)])
@pytest.mark.parametrize("data", [STRONG, private([4000] * CLASSES)], ids=["strong", "stronger"])
def test_every_release_has_the_noise_its_share_and_relation_ask_for(budget, counts, sums, data, spy):
    model = fit(SMALL, data, budget, noise=Listening(1))
    (event,) = model.events
    for made in spy:
        sensitivity = counts if isinstance(made.query, ClassCounts) else sums
        assert made.query.l2_sensitivity(budget.relation) == sensitivity
        wanted = event.noise_multiplier * sensitivity / math.sqrt(made.share)
        assert wanted <= made.scale <= wanted * (1 + 1e-6)
    assert kinds(spy).count(SoftmaxGradient) == SMALL.steps


@pytest.mark.parametrize("data", [STRONG, WEAK], ids=["strong", "weak"])
@pytest.mark.parametrize("counts", [0.03, 0.3])
def test_under_replace_one_counts_are_free_and_no_kind_of_neighbours_is_undercharged(counts, data, spy):
    """At the same noise multiplier sums have 98 % of the budget instead of 95, or steps 61 instead of 58."""
    fit(replace(SMALL, count_share=counts), data, REPLACE)
    stays = sum(made.share for made in spy if not isinstance(made.query, ClassCounts))
    changes = sum(made.share * (0.5 if isinstance(made.query, ClassSums) else 1) for made in spy)
    assert max(stays, changes) <= 1 + 1e-9
    if data is STRONG or counts == 0.03:
        assert max(stays, changes) == pytest.approx(1.0)
    if counts == 0.03:
        assert stays == pytest.approx(1.0)
        sums = next(made.share for made in spy if isinstance(made.query, ClassSums))
        assert sums == pytest.approx(0.37 if data is STRONG else 0.98)


@pytest.mark.parametrize("data", [STRONG, WEAK], ids=["strong", "weak"])
@pytest.mark.parametrize("budget", [BUDGET, REPLACE, Budget.zcdp(0.05), Budget.gdp(0.4)], ids=str)
def test_the_event_is_the_planned_one_on_both_paths(budget, data):
    model = fit(SMALL, data, budget)
    plan = SMALL.plan(data.facts, budget, POOL)
    assert model.events == plan.events
    assert len(plan.events) == 1
    assert model.guarantee == plan.guarantee


def released(model):
    return [
        *(array.tobytes() for array in model.weights.values()),
        model.provenance.notes,
        model.features.identity,
    ]


def asked(query, share):
    """What a release asks, to the last bit; a query made from a private value would show here."""
    parts = ("linear", "offset", "precision", "weights")
    arrays = [getattr(query, name, np.zeros(0)).tobytes() for name in parts]
    return type(query), share, query.shape, *arrays


def same_from_the_same_answers(method, data, other, monkeypatch):
    """Whether a run on other rows asks and gives the same, bit for bit, if the noisy answers are the same."""
    answers, asks, release = [], ([], []), SharesLeft.release

    def recording(purse, query, share, x, y, people=None):
        asks[0].append(asked(query, share))
        answers.append(release(purse, query, share, x, y, people))
        return answers[-1]

    def replaying(purse, query, share, x, y, people=None):
        asks[1].append(asked(query, share))
        return answers.pop(0)

    with monkeypatch.context() as patch:
        patch.setattr(SharesLeft, "release", recording)
        first = fit(method, data)
        patch.setattr(SharesLeft, "release", replaying)
        second = fit(method, other, seed=99)
    return not answers and asks[0] == asks[1] and released(first) == released(second)


@dataclass(frozen=True)
class PeeksAtTheEnd(PublicPriorPrototypes):
    """Lets true class sizes set the offset: a private value outside a mechanism."""

    def run(self, plan, features, private, noise, public):
        outcome = super().run(plan, features, private, noise, public)
        true = np.bincount(private.labels, minlength=CLASSES)
        return replace(outcome, head=replace(outcome.head, offset=outcome.head.offset + np.log1p(true)))


@dataclass(frozen=True)
class PeeksInItsSteps(PublicPriorPrototypes):
    """Lets true class sizes into the gradient's question, where only the answers would tell."""

    def _descend(self, model, purse, mapped, private):
        true = np.bincount(private.labels, minlength=CLASSES)
        return super()._descend(replace(model, counts=true + 1.0), purse, mapped, private)


@pytest.mark.parametrize("data", [STRONG, WEAK], ids=["strong", "weak"])
@pytest.mark.parametrize("other", ["fewer rows", "no row", "nan"])
def test_everything_after_the_releases_is_a_function_of_them(data, other, monkeypatch):
    facts = dict(classes=range(CLASSES), name="samples")
    changed = {
        "fewer rows": PrivateEmbeddings(data.rows[::7] * 1e9, data.labels[::7], **facts),
        "no row": PrivateEmbeddings(data.rows[:0], data.labels[:0], **facts),
        "nan": PrivateEmbeddings(data.rows * np.nan, data.labels[::-1], **facts),
    }[other]
    assert same_from_the_same_answers(SMALL, data, changed, monkeypatch)


@dataclass(frozen=True)
class PeeksAtTheCentre(PublicPriorPrototypes):
    """Lets true class sizes weight the centre's sum."""

    def _recentred(self, features, counts, purse, rows, private):
        true = np.bincount(private.labels, minlength=CLASSES) + 1.0
        return super()._recentred(features, true, purse, rows, private)


@pytest.mark.parametrize("cheat", [PeeksAtTheEnd, PeeksInItsSteps, PeeksAtTheCentre])
def test_a_private_value_outside_the_releases_is_caught(cheat, monkeypatch):
    facts = dict(classes=range(CLASSES), name="samples")
    fewer = PrivateEmbeddings(STRONG.rows[::7], STRONG.labels[::7], **facts)
    settings = {"features": SMALL.features, "fewest_axes": SMALL.fewest_axes}
    assert same_from_the_same_answers(PublicPriorPrototypes(**settings), STRONG, fewer, monkeypatch)
    assert not same_from_the_same_answers(cheat(**settings), STRONG, fewer, monkeypatch)


def test_the_rows_reach_nothing_but_the_feature_map_and_the_purse(spy, monkeypatch):
    """A run asks for them once, maps them once where steps follow, each release sees a row per example."""
    mapped, lattice = [], FittedPublicMap.lattice

    def listening(features, x, norm):
        mapped.append(len(x))
        return lattice(features, x, norm)

    monkeypatch.setattr(FittedPublicMap, "lattice", listening)
    data = Watched(STRONG.rows, STRONG.labels, classes=range(CLASSES), name="samples")
    data.reads = 0
    strict = Ledger.in_memory(strict_names=True)  # which does not look at them before
    SMALL.fit(data, POOL, budget=BUDGET, ledger=strict, noise=SeededNoise(1))
    assert data.reads == 1
    assert sorted(mapped) == [len(POOL), len(STRONG.labels)]
    assert {len(made.rows) for made in spy} == {len(STRONG.labels)}


def test_the_last_half_of_equal_steps_along_the_noisy_gradient_is_averaged(spy):
    model = fit(SMALL, STRONG)
    steps = [made for made in spy if isinstance(made.query, SoftmaxGradient)]
    length = 1.6 * math.sqrt(CLASSES)
    reached = [made.query.linear - length * made.answer / np.linalg.norm(made.answer) for made in steps]
    for made, before in zip(steps[1:], reached, strict=False):
        assert np.allclose(made.query.linear, before)
    assert np.allclose(model.head.linear, np.mean(reached[SMALL.steps // 2 :], axis=0))
    assert not np.allclose(model.head.linear, np.mean(reached, axis=0))
    assert not np.allclose(steps[0].query.offset, model.head.offset)  # log counts are for learning only


def test_rows_of_the_steps_are_the_mapped_ones_cut_toward_zero(spy):
    """So that none grows beyond the norm, where it would count as a row of zeros."""
    fit(SMALL, STRONG)
    fine, coarse = spy[2].rows, spy[3].rows
    assert (np.abs(coarse) == np.abs(fine) // 2**14).all()
    assert (np.sign(coarse) * np.sign(fine) >= 0).all()
    assert (spy[3].query.features.lattice(coarse, 2**16) == coarse).all()
    floored = fine // 2**14
    assert not (spy[3].query.features.lattice(floored, 2**16) == floored).all()


def test_probabilities_are_tempered_alike_on_both_paths():
    """Log densities count for 25.6 independent axes, however many there are: by temperature or beforehand."""
    around_the_pool = replace(SMALL, centre_share=0.0)  # the map, and so the precision, is the same for both
    weak, strong = fit(around_the_pool, WEAK), fit(around_the_pool, STRONG)
    assert weak.head.temperature == pytest.approx(4 / 25.6)
    assert strong.head.temperature == 1.0
    precision = [np.median(model.head.precision / model.head.temperature) for model in (weak, strong)]
    assert precision[0] == pytest.approx(precision[1], rel=0.5)
    assert not np.median(weak.head.precision) == pytest.approx(precision[1], rel=0.5)


def balanced_accuracy(method, counts, seed, budget=BUDGET, apart=0.3):
    """As embeddings are: a common mean, a few axes that vary most, and classes that differ along all."""
    rng = np.random.default_rng(seed)
    width, classes = 100, len(counts)
    spread = np.geomspace(1, 0.1, width)
    centres = rng.normal(size=(classes, width)) * np.sqrt(spread) * apart + 1
    labels, tests = np.repeat(np.arange(classes), counts), np.repeat(np.arange(classes), 40)
    own, test, public = (
        centres[of] + rng.normal(size=(len(of), width)) * spread
        for of in (labels, tests, rng.integers(0, classes, 2000))
    )
    data = PrivateEmbeddings(own, labels, classes=range(classes), name="task")
    # Noise from another seed: from the task's own, its first draws would be the centres themselves.
    return fit(method, data, budget, PublicEmbeddings(public), seed + 100).score(test, tests)


def test_it_beats_mean_prototypes_on_imbalanced_classes_with_a_matching_pool():
    counts = np.geomspace(600, 30, 8).astype(int)
    ours, mean = (
        [balanced_accuracy(method, counts, seed) for seed in range(2)]
        for method in (PublicPriorPrototypes(), MeanPrototypes())
    )
    assert min(np.subtract(ours, mean)) > 0.25


def test_steps_pay_where_they_are_taken_and_go_downhill(monkeypatch):
    task = {"counts": [400] * 4, "seed": 0, "budget": Budget(epsilon=4.0, delta=1e-5), "apart": 0.15}
    without = balanced_accuracy(PublicPriorPrototypes(steps=0), **task)
    assert balanced_accuracy(PublicPriorPrototypes(), **task) > without
    monkeypatch.setattr(public_prior, "_STEP_LENGTH", -public_prior._STEP_LENGTH)
    assert balanced_accuracy(PublicPriorPrototypes(), **task) < without - 0.1


def test_it_needs_a_pool_and_says_so_before_anything_is_charged():
    ledger = Ledger.in_memory()
    for method in (SMALL, PublicPriorPrototypes(features=UnitNorm())):
        with pytest.raises(ArgumentError, match="needs public rows"):
            method.fit(STRONG, budget=BUDGET, ledger=ledger, noise=SeededNoise(0))
    assert ledger.history() == []


def test_a_plan_needs_no_pool():
    facts = Facts(tuple(range(CLASSES)), WIDTH)
    alone, pooled = (SMALL.plan(facts, BUDGET, public) for public in (None, POOL))
    assert alone.events == pooled.events
    assert alone.mechanisms[0].query.shape == (CLASSES, 16)


def test_the_plan_is_for_the_largest_release():
    """With three public rows the sums have 4 × 2 coordinates, and the centre has all 24 of them."""
    few = PublicEmbeddings(POOL.rows[:3])
    largest = [
        method.plan(STRONG.facts, BUDGET, few).mechanisms[0].query.shape
        for method in (SMALL, replace(SMALL, centre_share=0.0))
    ]
    assert largest == [(WIDTH,), (CLASSES, 2)]
    assert fit(SMALL, STRONG, public=few)


def test_a_pure_budget_is_refused():
    with pytest.raises(BudgetError, match="pure"):
        SMALL.plan(STRONG.facts, Budget(epsilon=1.0), POOL)


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"fewest_axes": 0}, "fewest_axes"),
        ({"fewest_axes": 2.5}, "fewest_axes"),
        ({"count_share": 0.0}, "count_share"),
        ({"count_share": float("nan")}, "count_share"),
        ({"centre_share": -0.1}, "centre_share"),
        ({"centre_share": 0.6}, "add up to 1"),
        ({"sum_share": 1.0}, "sum_share"),
        ({"sum_share": -0.1}, "sum_share"),
        ({"steps": -1}, "steps"),
        ({"steps": True}, "steps"),
        ({"count_share": 0.5, "sum_share": 0.5}, "add up to 1"),
    ],
)
def test_settings_are_checked(settings, named):
    with pytest.raises(ArgumentError, match=named):
        PublicPriorPrototypes(**settings)


def test_whole_numbers_written_as_floats_work_to_the_end():
    """They used to pass the check and then stop the run, after the charge."""
    odd = replace(SMALL, steps=3.0, fewest_axes=np.float32(4.0), count_share=np.float32(0.25))
    assert (odd.steps, odd.fewest_axes, odd.count_share) == (3, 4, 0.25)
    assert all(type(value) in (int, float) for value in (odd.steps, odd.fewest_axes, odd.count_share))
    assert fit(odd, STRONG).features.dimension == 16


@pytest.mark.parametrize(("data", "axes"), [(STRONG, 16), (WEAK, 4)], ids=["strong", "weak"])
def test_the_release_stores_the_narrowed_map_and_predicts_the_same(data, axes, tmp_path):
    model = fit(SMALL, data)
    model.save(tmp_path / "model", unsafe_for_publication=True)
    again = read_release(tmp_path / "model")
    fresh = rows(np.arange(200) % CLASSES, seed=9)
    assert again.weights["features.matrix"].shape == (WIDTH, axes)
    assert again.features.identity == model.features.identity
    public = SMALL.features.fit(WIDTH, POOL).first(axes)
    assert (again.features.matrix == public.matrix).all()
    moved = np.abs(again.features.mean - public.mean).max()
    assert (moved > 1) == (data is STRONG)  # a weak signal moves no centre, but for rounding
    assert (again.scores(fresh) == model.scores(fresh)).all()
    assert again.provenance.notes == model.provenance.notes


BUDGETS = [Budget(epsilon=epsilon, delta=1e-5) for epsilon in (1e-6, 1.0, 700.0)]


@pytest.mark.filterwarnings("ignore::dptransfer.errors.PrivacyWarning")
@pytest.mark.parametrize("budget", [*BUDGETS, REPLACE], ids=str)
@pytest.mark.parametrize("features", [PublicMap(axes=16), PublicMap(axes=1), UnitNorm()], ids=repr)
def test_odd_rows_and_budgets_give_a_finite_model(budget, features):
    labels = np.arange(400) % 2
    huge = np.sign(rows(labels)) * 1e308
    for x in (rows(labels), np.full((400, WIDTH), np.nan), np.zeros((400, WIDTH)), huge):
        data = PrivateEmbeddings(x, labels, classes=("no", "yes"), name="odd")
        model = fit(PublicPriorPrototypes(features=features, fewest_axes=4), data, budget)
        assert all(np.isfinite(array).all() for array in model.weights.values())
        assert np.isfinite(model.predict_proba(POOL.rows[:20])).all()


@pytest.mark.parametrize("count", [1, 2, 5])
def test_a_pool_smaller_than_the_axes_gives_fewer_axes(count):
    for pool in (POOL.rows[:count], np.zeros((count, WIDTH))):
        model = fit(SMALL, STRONG, public=PublicEmbeddings(pool))
        assert model.features.dimension == max(1, count - 1)
        assert np.isfinite(model.scores(POOL.rows[:20])).all()


@pytest.mark.filterwarnings("ignore::dptransfer.errors.PrivacyWarning")
def test_many_classes_work_with_few_axes(monkeypatch):
    monkeypatch.setattr(hierarchical, "_PRIOR_POWERS", (1.0,))  # for speed
    labels = np.arange(2500) % 500
    data = PrivateEmbeddings(rows(labels % CLASSES), labels, classes=range(500), name="many")
    model = fit(
        PublicPriorPrototypes(features=PublicMap(axes=4), steps=3), data, Budget(epsilon=600.0, delta=1e-5)
    )
    assert model.weights["linear"].shape == (500, 4)
    assert np.isfinite(model.scores(POOL.rows[:5])).all()
    assert "gradient steps" in model.provenance.notes[0]


def of_people(counts, each, seed=2, permuted=True):
    """The rows of `private`, with `each` to a person, of any classes."""
    data = private(counts, seed)
    people = np.arange(len(data.labels)) // each
    people = np.random.default_rng(seed).permutation(people) if permuted else people
    return PrivateEmbeddings(data.rows, data.labels, classes=range(CLASSES), people=people, name="samples")


PERSONS = of_people([2000] * CLASSES, each=4)


@pytest.mark.parametrize("budget", [BUDGET, REPLACE], ids=str)
@pytest.mark.parametrize("data", [PERSONS, of_people([30] * CLASSES, each=3)], ids=["strong", "weak"])
def test_every_release_about_persons_is_paid_for_in_full(budget, data, spy):
    """No label stays or changes as a whole, so that no share is free under replace-one."""
    model = fit(SMALL, data, budget, noise=Listening(1))
    assert {made.query.unit for made in spy} == {Unit.PERSON}
    assert sum(made.share for made in spy) == pytest.approx(1.0)
    assert {event.unit for event in model.events} == {Unit.PERSON}
    steps = SMALL.steps if data is PERSONS else 0
    assert kinds(spy) == [ClassCounts, WeightedTotal, WeightedClassSums, *[SoftmaxGradient] * steps]
    for made in spy:
        sensitivity = made.query.l2_sensitivity(budget.relation)
        wanted = model.events[0].noise_multiplier * sensitivity / math.sqrt(made.share)
        assert wanted <= made.scale <= wanted * (1 + 1e-6)


def test_persons_count_in_the_model_as_they_do_in_its_sums(spy, monkeypatch):
    """Sums that are divided by counts bring their own; steps have the frequencies of the classes."""
    seen = []
    model_of, descend = public_prior.posterior, PublicPriorPrototypes._descend

    def listening(sums, counts, *scales):
        seen.append((sums, counts, scales))
        return model_of(sums, counts, *scales)

    def starting(self, model, *others):
        seen.append(model.counts)
        return descend(self, model, *others)

    monkeypatch.setattr(public_prior, "posterior", listening)
    monkeypatch.setattr(PublicPriorPrototypes, "_descend", starting)
    fit(SMALL, PERSONS)
    first, _, summed, *_ = spy
    (sums, counts, (sum_scale, count_scale, _)), frequencies = seen
    weight = summed.query.count_weight
    assert weight == pytest.approx(math.sqrt(0.03 / 0.37), abs=2.0**-16)
    assert (sums == summed.answer[:, :-1]).all()
    assert (counts == summed.answer[:, -1] / weight).all()
    assert count_scale == sum_scale / weight
    assert frequencies == pytest.approx(first.answer, rel=0.1)


def test_large_classes_weigh_less_in_the_sums_of_persons(spy):
    fit(SMALL, of_people([4000, 400, 400, 40], each=4))
    weights = next(made.query.weights for made in spy if isinstance(made.query, WeightedClassSums))
    assert weights[0] < 0.3
    assert weights[1:] == pytest.approx(1.0, abs=0.3)


@pytest.mark.parametrize("strength", [30, 2000])
def test_everything_after_the_releases_about_persons_is_a_function_of_them(strength, monkeypatch):
    data, other = (of_people([strength] * CLASSES, 4, seed) for seed in (2, 3))
    assert same_from_the_same_answers(SMALL, data, other, monkeypatch)


def test_one_voice_each_costs_little_where_there_are_many_people():
    """Against group privacy for as many rows as a person has."""
    labels = np.arange(1000) % CLASSES
    test = rows(labels, seed=5)

    def accuracy(data, budget):
        return np.mean(
            [(fit(SMALL, data, budget, seed=seed).predict(test) == labels).mean() for seed in range(3)]
        )

    singly = PrivateEmbeddings(PERSONS.rows, PERSONS.labels, classes=range(CLASSES), name="rows")
    persons = accuracy(PERSONS, Budget(epsilon=0.3, delta=1e-5))
    assert persons > accuracy(singly, Budget(epsilon=0.3, delta=1e-5)) - 0.05
    assert persons > accuracy(singly, Budget(epsilon=0.3 / 16, delta=1e-6)) + 0.02
