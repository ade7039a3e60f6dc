import math

import pytest

from dptransfer_lab.figures.style import styles_of
from dptransfer_lab.statistics import _significance, who_won, winner_of

from .synthetic import cells, grid, record


def seeds(method, *values, **more):
    return [record(method, seed=seed, balanced=value, **more) for seed, value in enumerate(values)]


def won(*records):
    return winner_of(cells([one for some in records for one in some]), "balanced_accuracy")


def sentence(records):
    frame = cells(records)
    return who_won(frame, styles_of(frame))


def test_the_winner_has_the_largest_mean_and_its_lead():
    found = won(seeds("mean", 0.5, 0.6), seeds("public", 0.7, 0.7))
    assert (found.label, found.mean, found.lead) == ("public", pytest.approx(0.7), pytest.approx(0.15))
    assert not found.clear  # two seeds leave room for chance
    assert found.level == {"public", "mean"}


def test_seeds_are_compared_one_by_one():
    """What all labels share, such as the rows of a seed, is no noise between them."""
    paired = won(seeds("mean", 0.5, 0.6, 0.7), seeds("public", 0.52, 0.621, 0.719))
    assert paired.clear
    assert paired.level == {"public"}
    crossed = won(seeds("mean", 0.7, 0.6, 0.5), seeds("public", 0.52, 0.621, 0.719))
    assert crossed.level == {"public", "mean"}


def test_many_rivals_need_more_than_one_does():
    best = seeds("public", 0.60, 0.62, 0.64, 0.66)
    rival = [0.58, 0.59, 0.635, 0.64]
    assert won(best, seeds("mean", *rival)).clear
    assert not won(best, *(seeds("mean", *rival, label=f"v{place}") for place in range(4))).clear


def test_what_is_not_private_does_not_compete():
    found = won(seeds("mean", 0.5), seeds("as-published-mean", 0.9))
    assert found.label == "mean"
    assert math.isnan(found.lead)
    assert won(seeds("as-published-mean", 0.9)) is None


def test_one_seed_tells_who_is_best_and_not_whether_it_is_chance():
    found = won(seeds("mean", 0.5), seeds("public", 0.9))
    assert found.level == {"public"}
    assert not found.clear


def test_one_sentence_says_who_won_where_and_by_how_much():
    shifts = {0.1: 0.02, 0.5: 0.03, 1.0: 0.04, 4.0: -0.01}  # by how much 'public' is ahead
    records = [
        record(method, epsilon=epsilon, seed=seed, balanced=0.5 + 0.01 * seed + shift * (method == "public"))
        for method in ("mean", "public")
        for epsilon, shift in shifts.items()
        for seed in range(3)
    ]
    assert sentence(records) == (
        "public is best in 3 of 4 settings, by 3.0 points on average over the second best (95 % interval 0.5 "
        "to 5.5); mean is best in 1. All 3 leads are statistically significant (paired t test over seeds, "
        "5 %)."
    )


def test_marks_are_part_of_the_sentence_and_nobody_wins_alone():
    both = [*seeds("mean", 0.5), *seeds("public", 0.6, oracle_tuned=True)]
    assert sentence(both).startswith("public [oracle-tuned] is best in the one setting, by 10.0 points")
    assert sentence(grid(("mean",))) == ""
    assert sentence(seeds("as-published-mean", 0.5) + seeds("mean", 0.4)) == ""


@pytest.mark.parametrize(
    ("clear", "most", "said"),
    [
        (0, 1, "This lead is not statistically significant"),
        (1, 1, "This lead is statistically significant"),
        (0, 3, "None of the 3 leads is statistically significant"),
        (1, 3, "1 of 3 leads is statistically significant"),
        (2, 3, "2 of 3 leads are statistically significant"),
        (3, 3, "All 3 leads are statistically significant"),
    ],
)
def test_how_many_leads_are_significant_is_plain_english(clear, most, said):
    assert _significance(clear, most).startswith(said)
