import numpy as np
import pytest

from dptransfer.methods.heads.words import named_words, sparse_posterior

WORDS = [
    "tabby, tabby cat",
    "Persian cat",
    "crane (bird)",
    "crane (machine)",
    "soccer ball",
    "binoculars, field glasses",
    "bus",
    "princess",
    "Käse",
]


def found(name):
    (row,) = named_words([name], WORDS)
    return {WORDS[place]: float(row[place]) for place in np.flatnonzero(row)}


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("soccer_ball", {"soccer ball": 1.0}),
        ("SoccerBalls", {"soccer ball": 1.0}),
        ("Tabby", {"tabby, tabby cat": 1.0}),
        ("field glass", {}),
        ("field-glasses", {"binoculars, field glasses": 1.0}),
        ("binocular", {"binoculars, field glasses": 1.0}),
        ("crane", {"crane (bird)": 0.5, "crane (machine)": 0.5}),
        ("wild_cat", {"tabby, tabby cat": 0.5, "Persian cat": 0.5}),
        ("bus", {"bus": 1.0}),
        ("princess", {"princess": 1.0}),
        ("käse", {"Käse": 1.0}),
        ("bird", {}),
        ("class 7", {}),
        ("7", {}),
        ("", {}),
        (7, {}),
    ],
)
def test_a_class_finds_the_words_that_bear_its_name_or_its_last_word(name, words):
    assert found(name) == words


def task(scale, *, borne, seed=0, classes=30, words=200):
    """Each class has one word; where names are `borne`, it is the one that bears the class's name."""
    rng = np.random.default_rng(seed)
    means = np.full((classes, words), 0.002)
    own = np.arange(classes) if borne else np.arange(classes) + 100
    means[np.arange(classes), own] = 0.5
    sums = 20 * means + scale * rng.normal(size=means.shape)
    return means, sums, np.full(classes, 20.0) + scale * rng.normal(size=classes), np.eye(classes, words), own


def accuracy(posterior, own):
    """Of rows that have the one word of their class."""
    return np.mean(posterior.weights[:, own].argmax(axis=0) == np.arange(len(own)))


def test_names_tell_classes_apart_where_the_sums_say_nothing():
    _, sums, counts, named, own = task(scale=100.0, borne=True)
    assert accuracy(sparse_posterior(sums, counts, 100.0, 100.0), own) < 0.4
    assert accuracy(sparse_posterior(sums, counts, 100.0, 100.0, named), own) > 0.9


def test_names_that_mean_something_else_lose_their_weight():
    _, sums, counts, named, own = task(scale=2.0, borne=False)
    plain, misled = (sparse_posterior(sums, counts, 2.0, 2.0, given) for given in (None, named))
    assert accuracy(misled, own) >= accuracy(plain, own) - 0.05
    assert misled.means[np.arange(30), np.arange(30)].mean() < 0.03


def test_no_name_changes_nothing():
    _, sums, counts, named, _ = task(scale=2.0, borne=True)
    plain = sparse_posterior(sums, counts, 2.0, 2.0)
    assert np.array_equal(sparse_posterior(sums, counts, 2.0, 2.0, 0 * named).means, plain.means)
