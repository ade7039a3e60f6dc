import math
from statistics import NormalDist

import numpy as np
import pytest

from dptransfer.errors import ArgumentError, ReleaseError
from dptransfer.exact.evaluation_layout import CHANCE_EDGES, chance_slack
from dptransfer.privacy import EACH_ROW, Bound, Unit
from dptransfer.release import read_release
from dptransfer.release.classifier import probabilities
from dptransfer.release.prediction_sets import coverage_after_looking, sets_of, threshold_for

from .counts import NOISE, counts_of, counts_of_cells, with_counts
from .models import make_model, rows

EDGES = np.array(CHANCE_EDGES)


def cells_of(misses, size):
    """Expected cells where the share of misses below each edge is this; the rest is right."""
    return size * np.diff(misses, prepend=0.0, append=1.0)


def failures(misses, size, releases, *, confidence=0.95, bound=EACH_ROW, together=1, noise=NOISE):
    """How many simulated releases at ε = 0.2 have sets that cover less than 0.9; `together` rows agree."""
    rng = np.random.default_rng(0)
    shares = cells_of(np.asarray(misses), 1.0)
    failed = 0
    for _ in range(releases):
        cells = together * rng.multinomial(size // together, shares)
        counts = counts_of_cells(cells, rng=rng, bound=bound, noise=noise)
        threshold = threshold_for(counts, 0.9, confidence)
        failed += threshold > 0 and misses[CHANCE_EDGES.index(threshold)] > 0.1
    return failed


def rare(releases, share):
    """More than this many, of so many with this share, come once in a million."""
    return releases * share + NormalDist().inv_cdf(1 - 1e-6) * math.sqrt(releases * share * (1 - share)) + 1


HARDEST = np.r_[np.linspace(0.0, 0.03, 8), 0.1001, 0.15, 0.2, 0.25]  # an edge that just does not cover


def test_of_500_releases_at_a_fifth_of_an_epsilon_no_more_fail_to_cover_than_stated():
    assert failures(HARDEST, 3000, 500) <= rare(500, 0.05)
    assert failures(HARDEST, 3000, 500, confidence=0.5) > rare(500, 0.05)  # without the error of the noise


def test_a_coverage_that_was_chosen_after_looking_holds_as_often_too():
    rng, failed, chosen = np.random.default_rng(0), 0, []
    misses = np.r_[0.151, 0.171, 0.191, 0.201, np.linspace(0.21, 0.4, 8)]
    for _ in range(300):
        counts = counts_of_cells(
            rng.multinomial(400, cells_of(misses, 1.0)), rng=rng, bound=EACH_ROW, noise=3.7
        )
        found = coverage_after_looking(counts, 0.95, 0.9)
        if found is not None:
            coverage, confidence = found
            assert confidence == 0.9917
            threshold = threshold_for(counts, coverage, confidence)
            assert threshold > 0
            assert not threshold_for(counts, round(coverage + 0.01, 2), confidence)
            chosen.append(coverage)
            failed += misses[CHANCE_EDGES.index(threshold)] > 1 - coverage
    assert len(set(chosen)) > 3
    assert len(chosen) > 200
    assert failed <= rare(300, 0.1)


def test_whoever_passes_at_a_coverage_passes_at_every_smaller_one():
    rng = np.random.default_rng(1)
    for size in (30, 100, 1000):
        for _ in range(20):
            shares = rng.dirichlet(np.r_[np.full(12, 0.05), 3.0])
            counts = counts_of_cells(rng.multinomial(size, shares), rng=rng, bound=EACH_ROW, noise=NOISE)
            found = [threshold_for(counts, percent / 100, 0.95) for percent in range(50, 100)]
            assert found == sorted(found, reverse=True)


@pytest.mark.slow
@pytest.mark.parametrize("size", [500, 3000, 20_000])
@pytest.mark.parametrize("first", range(0, 12, 3))
@pytest.mark.parametrize("confidence", [0.8, 0.95])
def test_coverage_holds_whichever_edge_is_the_first_that_does_not_cover(size, first, confidence):
    misses = np.r_[np.linspace(0.0, 0.08, first), np.linspace(0.1001, 0.3, 12 - first)]
    found = failures(misses, size, 5000, confidence=confidence)
    assert found <= rare(5000, 1 - confidence)


def test_persons_whose_rows_are_all_alike_are_covered_as_stated():
    three = Bound(Unit.PERSON, 3.0)
    assert failures(HARDEST, 6000, 500, bound=three, together=3, noise=1.0) <= rare(500, 0.05)
    assert failures(HARDEST, 6000, 500, together=3, noise=1.0) > rare(500, 0.05)  # as if rows were drawn


def test_without_noise_the_threshold_is_the_last_edge_that_a_score_test_allows():
    misses = np.linspace(0.01, 0.12, 12)
    counts = counts_of_cells(cells_of(misses, 4000), noise=1e-6)
    allowed = 0.1 - NormalDist().inv_cdf(0.95) * math.sqrt(0.1 * 0.9 / 4000)
    assert threshold_for(counts, 0.9, 0.95) == EDGES[misses <= allowed][-1] < EDGES[misses <= 0.1][-1]
    assert threshold_for(counts, 0.8, 0.95) == 0.5
    assert threshold_for(counts, 0.999, 0.95) == 0


def test_an_edge_that_fails_stops_the_search_whatever_lies_beyond():
    cells = cells_of(np.linspace(0.005, 0.06, 12), 4000)
    cells[3], cells[4] = 600, -600  # as noise would: too many below the fourth edge, all gone after it
    assert threshold_for(counts_of_cells(cells, noise=1e-6), 0.9, 0.95) == EDGES[2]


def test_a_set_holds_the_likeliest_class_and_all_at_the_threshold_but_for_rounding():
    chances = np.array([[0.2, 0.41, 0.39], [0.9, 0.06, 0.04], [0.34, 0.33, 0.33]])
    assert sets_of(chances, 0.39).tolist() == [
        [False, True, True],
        [True, False, False],
        [True, False, False],
    ]
    assert sets_of(chances, 0.5).sum(axis=1).tolist() == [1, 1, 1]
    assert sets_of(chances, 0.39 * (1 + chance_slack(3) / 2))[0].tolist() == [False, True, True]
    assert sets_of(chances, 0.39 * (1 + 2 * chance_slack(3)))[0].tolist() == [False, True, False]


def simulated(size=20_000):
    """A model with a charged evaluation on rows whose classes its own probabilities tell."""
    model, x = make_model("linear"), rows(size, seed=8)
    chances = probabilities(model.scores(x), model.head.temperature)
    rng = np.random.default_rng(3)
    labels = (chances.cumsum(axis=1) < rng.random((size, 1))).sum(axis=1)
    return with_counts(model, counts_of(np.log(chances), labels)), x, labels


def test_sets_of_a_model_cover_new_rows_and_travel_with_its_release(tmp_path):
    model, x, labels = simulated()
    sets = model.predict_sets(x, coverage=0.9)
    assert sets.members[np.arange(len(x)), labels].mean() >= 0.9
    assert 1 <= sets.average_size < 2.5
    assert f"average size {sets.average_size:.2f} of 3" in repr(sets)
    likeliest = model.predict(x).tolist()
    assert all(label in own for label, own in zip(likeliest, sets.labels, strict=True))
    again = read_release(model.save(tmp_path / "m")).predict_sets(x, coverage=0.9)
    assert (again.members == sets.members).all()
    assert again.threshold == sets.threshold > 0
    assert model.predict_sets(x, coverage=0.98).average_size > sets.average_size


def test_a_model_without_a_charged_evaluation_says_how_to_get_one():
    with pytest.raises(ReleaseError, match="--private"):
        make_model().predict_sets(rows())


@pytest.mark.parametrize("wrong", [0, 1, float("nan"), "0.9"])
def test_a_coverage_or_confidence_that_is_no_share_is_refused(wrong):
    model, x, _ = simulated(500)
    for name in ("coverage", "confidence"):
        with pytest.raises(ArgumentError, match=name):
            model.predict_sets(x, **{name: wrong})


@pytest.mark.gpu
def test_cuda_gives_the_same_sets():
    import torch

    model, x, _ = simulated(5000)
    here = model.predict_sets(x)
    assert (model.predict_sets(torch.from_numpy(x).cuda()).members == here.members).mean() > 0.9999
