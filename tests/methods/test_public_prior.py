"""Counts, a centre and steps in shares: what is decided from noisy counts, and that nothing else is seen."""

import math
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import pytest
from scipy import stats

from dptransfer.data import PrivateEmbeddings, PublicEmbeddings, Vocabulary
from dptransfer.data.facts import Facts
from dptransfer.errors import ArgumentError, BudgetError
from dptransfer.exact.feature_map import FittedSideBySide, UnitNorm
from dptransfer.exact.public_map import FittedPublicMap, PublicMap
from dptransfer.exact.vocabulary_map import FittedVocabularyMap
from dptransfer.ledger import Ledger
from dptransfer.mechanisms import SharesLeft
from dptransfer.methods import PublicPriorPrototypes
from dptransfer.methods.heads import public_prior
from dptransfer.methods.heads.hierarchical import class_weights
from dptransfer.noise import SeededNoise
from dptransfer.privacy import Budget, Relation, Unit
from dptransfer.queries import (
    ClassCounts,
    ClassSums,
    ConfidenceTotal,
    LikelihoodGain,
    SoftmaxGradient,
    WeightedTotal,
)
from dptransfer.release import QuadraticHead, read_release

from .samples import Watched

CLASSES, WIDTH = 4, 96
BUDGET = Budget.gdp(0.27)  # ε = 1 at δ = 1e-5, about, and quickly accounted for
REPLACE = replace(BUDGET, relation=Relation.REPLACE_ONE)
SMALL = PublicPriorPrototypes(features=PublicMap(axes=96), steps=6)
SPREAD = np.geomspace(1, 0.1, WIDTH)
CENTRES = np.random.default_rng(0).normal(size=(CLASSES, WIDTH)) * SPREAD


def rows(labels, seed=0):
    noise = np.random.default_rng(seed).normal(size=(len(labels), WIDTH))
    return CENTRES[labels] + noise * SPREAD


POOL = PublicEmbeddings(rows(np.arange(300) % CLASSES, seed=1))
# An encoder that has a word for each class and is sure of it, and one whose words say nothing.
NAMES = tuple(f"word {number}" for number in range(12))
SURE, UNSURE = (
    PublicEmbeddings(POOL.rows, vocabulary=Vocabulary(NAMES, weights, np.zeros(12)))
    for weights in (np.vstack([2 * CENTRES, np.zeros((8, WIDTH))]), np.zeros((12, WIDTH)))
)


# Rows of class names that say what classes are, those of other classes, and labelled public rows.
NAMED, MISNAMED = POOL.with_names(CENTRES), POOL.with_names(np.roll(CENTRES, 1, axis=0))
SHOTS = POOL.with_shots(PublicEmbeddings(POOL.rows[:12], np.arange(12) % CLASSES, classes=range(CLASSES)))


def private(counts, seed=2):
    labels = np.repeat(np.arange(CLASSES), counts)
    return PrivateEmbeddings(rows(labels, seed), labels, classes=range(CLASSES), name="samples")


STRONG, WEAK, NONE = private([200] * CLASSES), private([8] * CLASSES), private([0] * CLASSES)
SOME, FEW = private([40] * CLASSES), private([20] * CLASSES)  # whose words are worth a part, and all
PATHS = {
    "strong": (STRONG, POOL),
    "weak": (WEAK, POOL),
    "no row": (NONE, POOL),
    "words that say nothing": (SOME, UNSURE),
    "long tail": (private([2000, 300, 30, 4]), POOL),
    "words and steps": (SOME, SURE),
    "words alone": (FEW, SURE),
    "names": (SOME, NAMED),
    "names of other classes": (STRONG, MISNAMED),
    "shots": (SOME, SHOTS),
    "names in a long tail": (private([2000, 300, 30, 4]), NAMED),
    "names before words": (SOME, SURE.with_names(CENTRES)),
}


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
    linear: np.ndarray | None  # where a gradient was taken


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
        scale, linear = getattr(purse.noise, "scale", 0) / query.grid, getattr(query, "linear", None)
        seen.append(Release(query, share, scale, x, answer, None if linear is None else linear.copy()))
        return answer

    monkeypatch.setattr(SharesLeft, "release", listening)
    return seen


def kinds(seen):
    return [type(made.query) for made in seen]


STEPS = [SoftmaxGradient] * SMALL.steps
RELEASES = {
    "strong": ([WeightedTotal, *STEPS], FittedPublicMap, "2% on the centre, 95% on 6 gradient steps in 96"),
    "weak": ([WeightedTotal, *STEPS], FittedPublicMap, "in 64 axes"),
    "no row": ([WeightedTotal, *STEPS], FittedPublicMap, "in 64 axes"),
    "long tail": ([WeightedTotal, ClassSums], FittedPublicMap, "95% on class sums in 96 axes"),
    "words that say nothing": ([ConfidenceTotal, WeightedTotal, *STEPS], FittedPublicMap, "1% on encoder"),
    "words and steps": ([ConfidenceTotal, ClassSums, WeightedTotal, *STEPS], FittedSideBySide, "labels"),
    "words alone": ([ConfidenceTotal, ClassSums], FittedVocabularyMap, "1% on encoder"),
    "names": ([LikelihoodGain, WeightedTotal, *STEPS], FittedSideBySide, "2% on whether class names help"),
    "names of other classes": ([LikelihoodGain, WeightedTotal, *STEPS], FittedPublicMap, "did not help"),
    "shots": ([LikelihoodGain, WeightedTotal, *STEPS], FittedSideBySide, "Labelled public rows helped"),
    "names in a long tail": (
        [LikelihoodGain, WeightedTotal, *STEPS],
        FittedSideBySide,
        "helped (noisy",
    ),
    "names before words": ([LikelihoodGain, WeightedTotal, *STEPS], FittedSideBySide, "Class names helped"),
}


@pytest.mark.parametrize("path", PATHS)
def test_what_is_released_is_decided_from_the_noisy_counts_and_the_note_says_so(path, spy):
    data, public = PATHS[path]
    model, plan = fit(SMALL, data, public=public), SMALL.plan(data.facts, BUDGET, public)
    assert model.events == plan.events
    assert model.guarantee == plan.guarantee
    released, kind, said = RELEASES[path]
    assert kinds(spy) == [ClassCounts, *released]
    assert type(model.features) is kind
    assert (type(model.head) is QuadraticHead) == (path == "long tail")
    (note,) = model.provenance.notes
    assert "Spent 3% on counts, " in note
    assert said in note


@pytest.mark.parametrize("path", PATHS)
def test_in_the_form_of_sums_counts_and_sums_are_all_that_is_asked_whatever_is_known(path, spy):
    data, public = PATHS[path]
    sums = replace(SMALL, form="sums")
    model, plan = fit(sums, data, public=public), sums.plan(data.facts, BUDGET, public)
    assert kinds(spy) == [ClassCounts, ClassSums]
    assert [made.share for made in spy] == pytest.approx([0.03, 0.97])
    assert type(model.head) is QuadraticHead
    assert model.events == plan.events


def test_the_form_of_sums_passes_the_checks_of_methods():
    from dptransfer.testing import check_method

    check_method(replace(SMALL, features=PublicMap(axes=3), form="sums"))


def test_a_long_tail_whose_smallest_class_is_well_above_the_noise_is_read_in_steps(spy):
    fit(SMALL, private([2000, 300, 40, 40]), budget=Budget.gdp(1.5))
    assert set(kinds(spy)) == {ClassCounts, WeightedTotal, SoftmaxGradient}


class Planted(SeededNoise):
    """Lets the noisy counts be what the test wants, whatever the data; then seeded noise."""

    def __init__(self, counts, data, seed=1):
        super().__init__(seed)
        self.shift = np.asarray(counts) - np.bincount(data.labels, minlength=CLASSES)

    def discrete_gaussian(self, scale, shape):
        if shape == (CLASSES,):
            return self.shift * 2**30
        return super().discrete_gaussian(scale, shape)


def fitted_at(size, data, spy, method=SMALL):
    """The model where every class seems to have this size, and its steps."""
    spy.clear()
    model = fit(method, data, noise=Planted([size] * CLASSES, data))
    return model, [made for made in spy if isinstance(made.query, SoftmaxGradient)]


def rates(steps):
    """How far each step but the last goes along minus its noisy gradient; nothing but along it."""
    moves = [after.linear - before.linear for before, after in pairwise(steps)]
    found = [
        -float(np.vdot(move, made.answer) / np.vdot(made.answer, made.answer))
        for move, made in zip(moves, steps, strict=False)
    ]
    for move, made, rate in zip(moves, steps, found, strict=False):
        assert np.allclose(move, -rate * made.answer)
    return found


@pytest.mark.parametrize("truth", [STRONG, WEAK, NONE], ids=["strong", "weak", "none"])
def test_axes_steps_and_rate_follow_the_noisy_counts_and_not_the_true_ones(truth, spy):
    """Few axes for small classes, all for larger ones, and fewer again where rows are so many; more steps."""
    for size, axes in ((5, 64), (200, 96), (1000, 96), (50_000, 84), (10**6, 64)):
        model, steps = fitted_at(size, truth, spy)
        assert model.features.dimension == pytest.approx(axes, abs=1)
        if size > 5:  # which noisy counts do not tell from less or more
            reach = SMALL.logit_noise * math.log(CLASSES) * 0.27 * math.sqrt(0.95) * size
            longest = public_prior._STEP_REACH
            many = math.sqrt(reach * longest * SMALL.steps) / longest
            assert len(steps) == pytest.approx(min(max(many, SMALL.steps), 2 * SMALL.steps), abs=1)
            assert rates(steps)[0] * size == pytest.approx(min(reach / len(steps), longest), rel=0.05)


@pytest.mark.parametrize("budget", [BUDGET, REPLACE, Budget.gdp(2.0)], ids=str)
@pytest.mark.parametrize("steps", [1, 7])
def test_all_steps_together_leave_the_stated_noise_in_every_logit(budget, steps, monkeypatch):
    """Without rows weights are noise alone, of logit_noise · log(classes); 20 % more or less is noticed."""
    seen, descend = [], PublicPriorPrototypes._descend

    def listening(self, *given):
        weights, taken = descend(self, *given)
        seen.append(weights.copy())
        return weights, taken

    monkeypatch.setattr(PublicPriorPrototypes, "_descend", listening)
    method = replace(SMALL, steps=steps, logit_noise=0.7 / math.log(CLASSES))
    for seed in range(5):
        fit(method, NONE, budget, seed=seed)
    weights = np.array(seen)
    square = float((weights**2).sum())
    law = stats.chi2(weights.size)

    def chance(deviation):
        return 2 * min(law.cdf(square / deviation**2), law.sf(square / deviation**2))

    assert chance(0.7) > 1e-6
    assert chance(0.7 * 1.2) < 1e-6
    assert chance(0.7 / 1.2) < 1e-6


SETTINGS = (
    PublicPriorPrototypes(features=UnitNorm(), steps=3),
    replace(SMALL, count_share=0.2, steps=1),
    replace(SMALL, count_share=1 / 3, steps=7),
    replace(SMALL, centre_share=0.0),
    replace(SMALL, centre_share=0.3),
)


@pytest.mark.parametrize(
    ("method", "path"),
    [
        *((SMALL, path) for path in PATHS),
        *((one, path) for one in SETTINGS for path in ("strong", "words alone")),
    ],
)
def test_the_shares_add_up_to_one_on_every_path(method, path, spy):
    data, public = PATHS[path]
    fit(method, data, public=public)
    assert math.fsum(made.share for made in spy) == pytest.approx(1.0, abs=1e-12)


def test_a_share_that_is_not_there_stops_the_run():
    """The half that can fail: a run that counts once more is refused by the purse, and has failed."""

    @dataclass(frozen=True)
    class Greedy(PublicPriorPrototypes):
        __module__ = PublicPriorPrototypes.__module__  # one of another package would be tried before

        def _descend(self, seen, start, axes, counts, purse, share, way):
            purse.release(ClassCounts(CLASSES), 0.01, seen.private.rows, seen.private.labels)
            return super()._descend(seen, start, axes, counts, purse, share, way)

    ledger = Ledger.in_memory()
    greedy = Greedy(features=UnitNorm(), steps=3)
    with pytest.raises(BudgetError, match="Shares"):
        greedy.fit(STRONG, POOL, budget=BUDGET, ledger=ledger, noise=SeededNoise(1))
    assert ledger.history()[0].outcome == "failed"
    assert fit(PublicPriorPrototypes(features=UnitNorm(), steps=3), STRONG)


@pytest.mark.parametrize(("budget", "small", "large"), [(BUDGET, 1.0, 1.0), (REPLACE, math.sqrt(2), 2.0)])
@pytest.mark.parametrize("path", PATHS)
def test_every_release_has_the_noise_its_share_and_relation_ask_for(budget, small, large, path, spy):
    data, public = PATHS[path]
    model = fit(SMALL, data, budget, public, noise=Listening(1))
    (event,) = model.events
    for made in spy:
        sensitivity = small if isinstance(made.query, ClassCounts | ConfidenceTotal) else large
        assert made.query.l2_sensitivity(budget.relation) == sensitivity
        wanted = event.noise_multiplier * sensitivity / math.sqrt(made.share)
        assert wanted <= made.scale <= wanted * (1 + 1e-6)
    assert math.fsum(made.share for made in spy) == pytest.approx(1.0, abs=1e-12)


def released(model):
    return [
        *(array.tobytes() for array in model.weights.values()),
        model.provenance.notes,
        model.features.identity if hasattr(model.features, "identity") else None,
    ]


def asked(query, share):
    """What a release asks, to the last bit; a query made from a private value would show here."""
    arrays = [getattr(query, name, None) for name in ("linear", "offset", "precision", "weights")]
    told = [None if array is None else array.tobytes() for array in arrays]
    return type(query), share, query.shape, getattr(query, "clip", None), *told


def same_from_the_same_answers(method, data, other, monkeypatch, public=POOL):
    """Whether a run on other rows asks and gives the same, bit for bit, if the noisy answers are the same."""
    answers, asks, release = [], ([], []), SharesLeft.release

    def recording(purse, query, share, x, y, people=None):
        asks[0].append(asked(query, share))
        answers.append(release(purse, query, share, x, y, people))
        return answers[-1]

    def replaying(purse, query, share, x, y, people=None):
        asks[1].append(asked(query, share))
        purse.left -= share
        return answers.pop(0)

    with monkeypatch.context() as patch:
        patch.setattr(SharesLeft, "release", recording)
        first = fit(method, data, public=public)
        patch.setattr(SharesLeft, "release", replaying)
        second = fit(method, other, public=public, seed=99)
    return not answers and asks[0] == asks[1] and released(first) == released(second)


@pytest.mark.parametrize("path", [path for path in PATHS if path != "no row"])
@pytest.mark.parametrize("other", ["fewer rows", "no row", "nan"])
def test_everything_after_the_releases_is_a_function_of_them(path, other, monkeypatch):
    facts = dict(classes=range(CLASSES), name="samples")
    data, public = PATHS[path]
    changed = {
        "fewer rows": PrivateEmbeddings(data.rows[::7] * 1e9, data.labels[::7], **facts),
        "no row": PrivateEmbeddings(data.rows[:0], data.labels[:0], **facts),
        "nan": PrivateEmbeddings(data.rows * np.nan, data.labels[::-1], **facts),
    }[other]
    assert same_from_the_same_answers(SMALL, data, changed, monkeypatch, public)


def true_counts(data):
    return np.bincount(data.labels, minlength=CLASSES) + 1.0


@dataclass(frozen=True)
class PeeksAtTheEnd(PublicPriorPrototypes):
    """Lets true class sizes set the offset: a private value outside a mechanism."""

    def run(self, task):
        outcome = super().run(task)
        return replace(outcome, head=replace(outcome.head, offset=np.log(true_counts(task.private))))


@dataclass(frozen=True)
class PeeksInItsSteps(PublicPriorPrototypes):
    """Lets true class sizes into the gradient's question, where only the answers would tell."""

    def _descend(self, seen, start, axes, counts, purse, share, way):
        return super()._descend(seen, start, axes, true_counts(seen.private), purse, share, way)


@dataclass(frozen=True)
class PeeksAtTheCentre(PublicPriorPrototypes):
    """Lets true class sizes weight the centre's sum."""

    def _recentred(self, features, counts, purse, share, private):
        return super()._recentred(features, true_counts(private), purse, share, private)


@pytest.mark.parametrize("cheat", [PeeksAtTheEnd, PeeksInItsSteps, PeeksAtTheCentre])
def test_a_private_value_outside_the_releases_is_caught(cheat, monkeypatch):
    facts = dict(classes=range(CLASSES), name="samples")
    fewer = PrivateEmbeddings(STRONG.rows[::7], STRONG.labels[::7] ** 2 % CLASSES, **facts)
    settings = {"features": SMALL.features, "steps": 3}
    assert same_from_the_same_answers(PublicPriorPrototypes(**settings), STRONG, fewer, monkeypatch)
    assert not same_from_the_same_answers(cheat(**settings), STRONG, fewer, monkeypatch)


def test_the_rows_reach_nothing_but_the_feature_map_and_the_purse(spy, monkeypatch):
    """They are mapped once for all steps, and every release sees a row per example."""
    mapped, lattice = [], FittedPublicMap.lattice

    def listening(features, x, norm):
        mapped.append(len(x))
        return lattice(features, x, norm)

    monkeypatch.setattr(FittedPublicMap, "lattice", listening)
    data = Watched(STRONG.rows, STRONG.labels, classes=range(CLASSES), name="samples")
    data.reads = 0
    strict = Ledger.in_memory(strict_names=True)  # which does not look at them before
    SMALL.fit(data, POOL, budget=BUDGET, ledger=strict, noise=SeededNoise(1))
    assert data.reads == 4  # once before, to compare them with the pool; for counts, the centre and the map
    assert sum(mapped) == len(STRONG.labels)
    assert {len(made.rows) for made in spy} == {len(STRONG.labels)}


def test_steps_follow_the_noisy_gradient_from_zero_and_learn_how_frequent_classes_are(spy):
    method = replace(SMALL, clip=0.2)
    model = fit(method, private([900, 300, 200, 100]), seed=3)
    steps = [made for made in spy if isinstance(made.query, SoftmaxGradient)]
    assert not steps[0].linear.any()
    assert min(rates(steps)) == pytest.approx(max(rates(steps)))
    assert min(rates(steps)) > 0
    reached = steps[-1].linear - rates(steps)[0] * steps[-1].answer
    assert np.allclose(model.head.weights, public_prior._evened(reached))
    assert {made.query.clip for made in steps} == {0.2}
    assert np.exp(steps[0].query.offset) == pytest.approx([900, 300, 200, 100], rel=0.5)
    assert not model.head.offset.any()  # log counts are for learning only


def test_the_centre_is_of_rows_in_which_no_class_outweighs_the_typical_one(spy):
    fit(SMALL, STRONG, noise=Planted([4000, 400, 400, 40], STRONG))
    weights = next(made.query.weights for made in spy if isinstance(made.query, WeightedTotal))
    assert weights == pytest.approx(class_weights(np.array([4000.0, 400.0, 400.0, 40.0])), abs=0.05)
    assert weights.max() == 1


def test_a_plan_needs_no_pool():
    facts = Facts(tuple(range(CLASSES)), WIDTH)
    alone, pooled = (SMALL.plan(facts, BUDGET, public) for public in (None, POOL))
    assert alone.events == pooled.events
    assert alone.mechanisms[0].query.shape == (CLASSES, 96)


def test_the_plan_is_for_the_largest_release():
    """With three public rows gradients have 4 × 2 coordinates, the centre all 96, and words 4 × 30."""
    few = PublicEmbeddings(POOL.rows[:3])
    names = tuple(f"word {number}" for number in range(30))
    wordy = PublicEmbeddings(POOL.rows[:3], vocabulary=Vocabulary(names, np.ones((30, WIDTH)), np.zeros(30)))
    largest = [
        method.plan(STRONG.facts, BUDGET, pool).mechanisms[0].query.shape
        for method, pool in ((SMALL, few), (replace(SMALL, centre_share=0.0), few), (SMALL, wordy))
    ]
    assert largest == [(WIDTH,), (CLASSES, 2), (CLASSES, 30)]
    assert fit(SMALL, STRONG, public=few)
    assert fit(SMALL, STRONG, public=wordy)


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"count_share": 1.0}, "count_share"),
        ({"count_share": float("nan")}, "count_share"),
        ({"centre_share": -0.1}, "centre_share"),
        ({"centre_share": 0.97}, "add up to 1"),
        ({"count_share": 0.5, "centre_share": 0.495}, "below 0.97"),
        ({"steps": True}, "steps"),
        ({"clip": float("inf")}, "clip"),
        ({"logit_noise": 0.0}, "logit_noise"),
    ],
)
def test_settings_are_checked(settings, named):
    with pytest.raises(ArgumentError, match=named):
        PublicPriorPrototypes(**settings)


@pytest.mark.parametrize(("data", "axes"), [(STRONG, 96), (WEAK, 64)], ids=["strong", "weak"])
def test_the_release_stores_the_narrowed_map_and_predicts_the_same(data, axes, tmp_path):
    away = PrivateEmbeddings(data.rows + 0.3, data.labels, classes=range(CLASSES), name="away")
    model = fit(SMALL, away)
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


def of_people(counts, each, seed=2):
    """The rows of `private`, with `each` to a person, of any classes."""
    data = private(counts, seed)
    people = np.random.default_rng(seed).permutation(np.arange(len(data.labels)) // each)
    return PrivateEmbeddings(data.rows, data.labels, classes=range(CLASSES), people=people, name="samples")


PERSONS = of_people([1000] * CLASSES, each=4)
FEW_PERSONS = of_people([8] * CLASSES, each=3)


@pytest.mark.parametrize("budget", [BUDGET, REPLACE], ids=str)
@pytest.mark.parametrize("data", [PERSONS, FEW_PERSONS], ids=["strong", "weak"])
@pytest.mark.parametrize("public", [POOL, SURE], ids=["axes", "words"])
def test_every_release_about_persons_is_paid_for_in_full(budget, data, public, spy):
    model = fit(SMALL, data, budget, public, noise=Listening(1))
    assert {made.query.unit for made in spy} == {Unit.PERSON}
    assert sum(made.share for made in spy) == pytest.approx(1.0)
    assert {event.unit for event in model.events} == {Unit.PERSON}
    assert kinds(spy)[0] is ClassCounts
    assert kinds(spy)[-SMALL.steps :] == [SoftmaxGradient] * SMALL.steps
    for made in spy:
        sensitivity = made.query.l2_sensitivity(budget.relation)
        wanted = model.events[0].noise_multiplier * sensitivity / math.sqrt(made.share)
        assert wanted <= made.scale <= wanted * (1 + 1e-6)


@pytest.mark.parametrize("strength", [30, 1000])
@pytest.mark.parametrize("public", [POOL, SURE], ids=["axes", "words"])
def test_everything_after_the_releases_about_persons_is_a_function_of_them(strength, public, monkeypatch):
    data, other = (of_people([strength] * CLASSES, 4, seed) for seed in (2, 3))
    assert same_from_the_same_answers(SMALL, data, other, monkeypatch, public)


def test_words_too_many_to_stand_beside_the_axes_are_left_out_before_the_charge(monkeypatch):
    plain = replace(SMALL, features=UnitNorm())
    for most, has_words in ((WIDTH + len(NAMES), True), (WIDTH + len(NAMES) - 1, False)):
        monkeypatch.setattr(public_prior, "LARGEST_DIMENSION", most)
        assert (plain.prepare(SOME.facts, SURE).words is not None) is has_words
