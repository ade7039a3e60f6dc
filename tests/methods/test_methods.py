"""What is found by name is a method that bears this name, and takes none of ours."""

import subprocess
import sys
from dataclasses import dataclass, field
from typing import ClassVar

import pytest

import dptransfer
from dptransfer.errors import ArgumentError
from dptransfer.exact.feature_map import UnitNorm
from dptransfer.methods import METHODS, EmbeddingMethod, FromNames, FromShots, MeanPrototypes, Pace, WarmStart

from .samples import BUDGET, REPLACE, clusters, fit, private, shots


def test_our_methods_are_found_by_the_name_they_bear():
    assert all(method.name == name for name, method in METHODS.items())
    assert METHODS["mean"] is MeanPrototypes is dptransfer.methods.MeanPrototypes
    assert METHODS.own.keys() == METHODS.keys()  # no package adds any here


def test_listing_names_imports_no_method():
    code = "import sys, dptransfer; print(len(dptransfer.methods.METHODS.names), 'numpy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.split() == [str(len(METHODS)), "False"]


@dataclass(frozen=True)
class Taker(MeanPrototypes):
    """Takes a name of ours."""

    name: ClassVar[str] = "top-k"


@dataclass(frozen=True)
class Tuner(MeanPrototypes):
    """Takes the name of a search."""

    name: ClassVar[str] = "private-tuning"


class Unplanned(EmbeddingMethod):
    """Cannot plan."""

    name: ClassVar[str] = "unplanned"


@dataclass(frozen=True)
class Demanding(MeanPrototypes):
    """Has a setting without a default."""

    level: int = field(kw_only=True)
    name: ClassVar[str] = "demanding"


@pytest.mark.parametrize(
    ("place", "said"),
    [
        ("Taker", "cannot be taken; 'top-k' is one"),
        ("Tuner", "cannot be taken; 'private-tuning' is one"),
        ("Unplanned", "derives from"),
        ("Demanding", "has a default; one of 'demanding' has none"),
        ("pytest", "derives from"),
        ("EmbeddingMethod", "derives from"),
    ],
)
def test_what_is_no_method_or_takes_a_name_of_ours_is_refused(place, said):
    with pytest.raises(ArgumentError, match=said):
        METHODS.find(f"{__name__}:{place}")


def test_a_method_is_found_by_no_name_but_its_own(install):
    install("theirs", {}, {"dptransfer.methods": {"other": f"{__name__}:Renamed"}})
    with pytest.raises(ArgumentError, match="renamed"):
        METHODS["other"]
    assert "other" not in METHODS
    assert METHODS.find(f"{__name__}:Renamed") is Renamed


@dataclass(frozen=True)
class Renamed(MeanPrototypes):
    """Is registered under another name."""

    name: ClassVar[str] = "renamed"


HARDER = [
    ("least-squares", {}, None),
    ("newton", {}, None),
    *(("feature-covariance", given, shots) for given in ({}, {"start": FromShots()})),
    *(("warm-start", {"loss": loss, "steps": 40}, None) for loss in ("average", "logits")),
    ("projection", {"features": UnitNorm(), "steps": 10}, None),
]


@pytest.mark.parametrize("budget", [BUDGET, REPLACE])
@pytest.mark.parametrize(("name", "settings", "public"), HARDER)
def test_methods_learn_from_more_rows(name, settings, public, budget):
    x, y = clusters(seed=9)
    model = fit(
        METHODS[name](**settings), private(*clusters(3000)), public=public and public(), budget=budget
    )
    assert model.score(x, y) > 0.9
    assert 0.4 < model.predict_proba(x).max(axis=1).mean() <= 1.0
    assert model.events[0].relation is budget.relation


@pytest.mark.parametrize(
    ("make", "bad"),
    [
        (METHODS["noisy-gd"], {"steps": 0, "noise_multiplier": 0.0, "device": "tpu", "clip": -1.0}),
        (METHODS["dpsgd"], {"sampling_rate": float("nan")}),
        (METHODS["global-adapt"], {"count_weight": 0.0, "tolerance": 1.5, "adapt_rate": -1.0}),
        (
            METHODS["adamix"],
            {"quantile": 1.5, "axes": 0, "clip": 0.0, "public_weight": -1.0, "count_share": 1.0},
        ),
        (METHODS["ppgd"], {"reuse": 0.0}),
        (METHODS["mean-estimation"], {"smallest_count": 0.0, "count_weight": 0.0}),
        (METHODS["least-squares"], {"alpha": -0.1, "ridge": 0.0}),
        (METHODS["newton"], {"steps": 1.5, "share": 1.5, "ridge": 0.0, "clip": 0.0}),
        (METHODS["feature-covariance"], {"share": 0.0, "ridge": 0.0, "clip": 0.0}),
        (WarmStart, {"share": 1.0, "loss": "sum", "prior_temperature": 0.0}),
        (METHODS["projection"], {"share": 0.0, "dimension": 0, "sampling_rate": 2.0, "clip": 0.0}),
        (Pace, {"reach": 0.0, "weight_decay": -1.0, "radius": float("nan")}),
        (METHODS["auto"], {"margin": float("nan")}),
        (FromNames, {"scale": 0.0}),
        (FromShots, {"strength": 0.0}),
    ],
)
def test_bad_settings_are_refused_by_name(make, bad):
    for setting, value in bad.items():
        with pytest.raises(ArgumentError, match=setting):
            make(**{setting: value})
