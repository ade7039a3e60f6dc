"""Settings at the edge of what is accepted: a fit ends the same way whatever the rows are, and one row more
changes nothing about that. What is beyond the edge is refused when the method is made.
"""

import numpy as np
import pytest

from contracts.floating_point import flushing, needs_flags, rounding
from dptransfer.data import PrivateEmbeddings, PublicEmbeddings
from dptransfer.errors import ArgumentError
from dptransfer.exact.public_map import PublicMap
from dptransfer.ledger import Ledger
from dptransfer.methods import METHODS
from dptransfer.methods.heads.descent import Pace
from dptransfer.methods.heads.start import FromShots
from dptransfer.noise import SeededNoise
from dptransfer.privacy import Budget

LOW, HIGH = 1e-12, 1e12
WIDTH = 4
CLASSES = ("a", "b")
UNIT_ROW, NO_ROW = np.eye(1, WIDTH), np.zeros((0, WIDTH))
SIGNALLING = np.full((1, WIDTH), 0x7FF0000000000001, dtype=np.uint64).view(np.float64)
EXTREMES = {
    "none": NO_ROW,
    "unit": UNIT_ROW,
    "huge": np.full((1, WIDTH), 1.7e308),
    "subnormal": np.full((1, WIDTH), -5e-324),
    "signalling": SIGNALLING,
    "infinite": np.array([[np.inf, -np.inf, 0.0, 1e308]]),
}


def paces():
    return [
        Pace(reach=a, radius=b, weight_decay=c)
        for a, b, c in [(HIGH, HIGH, 0), (LOW, LOW, HIGH), (HIGH, LOW, LOW)]
    ]


GIVEN = {"steps": 3, "noise_multiplier": 30.0}  # noise that need not be searched for

EDGES = [
    *(("noisy-gd", {"steps": 3, "pace": pace, "clip": clip}) for pace in paces() for clip in (LOW, HIGH)),
    *(("dpsgd", {**GIVEN, "pace": pace, "start": FromShots(HIGH)}) for pace in paces()),
    ("global-adapt", {**GIVEN, "pace": paces()[0], "count_weight": 16, "adapt_rate": HIGH, "clip": HIGH}),
    ("global-adapt", {**GIVEN, "pace": paces()[2], "count_weight": 2.0**-16, "adapt_rate": LOW, "clip": LOW}),
    ("adamix", {"steps": 3, "pace": paces()[0], "public_weight": HIGH, "quantile": None, "clip": HIGH}),
    (
        "adamix",
        {"steps": 3, "pace": paces()[2], "public_weight": LOW, "quantile": None, "clip": LOW, "axes": 2},
    ),
    ("ngd", {"steps": 3, "pace": paces()[0], "start": FromShots(LOW)}),
    ("ppgd", {"steps": 3, "pace": paces()[0], "reuse": LOW}),
    ("ppgd", {"steps": 3, "pace": paces()[0], "reuse": HIGH}),
    ("fully-private", {"steps": 3, "pace": paces()[0], "clip": HIGH}),
    ("feature-covariance", {"steps": 3, "pace": paces()[0], "ridge": LOW}),
    ("feature-covariance", {"steps": 3, "pace": paces()[2], "ridge": HIGH, "clip": LOW}),
    *(
        ("warm-start", {**GIVEN, "pace": pace, "loss": loss, "prior_temperature": temperature, "share": 1e-6})
        for pace, loss, temperature in zip(
            paces(), ("average", "average", "logits"), (LOW, HIGH, LOW), strict=True
        )
    ),
    *(("projection", {**GIVEN, "pace": pace, "clip": clip}) for pace in paces() for clip in (LOW, HIGH)),
    ("newton", {"steps": 3, "ridge": LOW, "clip": HIGH}),
    ("newton", {"steps": 3, "ridge": HIGH, "clip": LOW}),
    ("least-squares", {"ridge": LOW, "alpha": HIGH}),
    ("least-squares", {"ridge": HIGH, "alpha": LOW}),
    ("public-prior", {"steps": 3, "logit_noise": LOW, "clip": HIGH, "features": PublicMap(axes=3)}),
    ("public-prior", {"steps": 3, "logit_noise": HIGH, "clip": LOW, "features": PublicMap(axes=3)}),
]


def public():
    rng, y = np.random.default_rng(0), np.array([0, 0, 1, 1])
    shots = PublicEmbeddings(rng.normal(size=(4, WIDTH)) + np.eye(2, WIDTH)[y], y, classes=CLASSES)
    return PublicEmbeddings(np.abs(rng.normal(size=(20, WIDTH)))).with_shots(shots)


POOL = public()


def ending(name, settings, extra, seed):
    """How a fit of twenty rows and these ends: nothing, or the error's name."""
    x = np.vstack([np.zeros((10, WIDTH)), np.tile(UNIT_ROW, (10, 1)), extra])
    data = PrivateEmbeddings(x, np.arange(len(x)) % 2, classes=CLASSES, name="edge", size=20)
    try:
        METHODS[name](**settings).fit(
            data,
            POOL,
            budget=Budget(epsilon=1.0, delta=1e-5),
            ledger=Ledger.in_memory(),
            noise=SeededNoise(seed),
        )
    except Exception as problem:
        return f"{type(problem).__name__}: {problem}"
    return "released"


@pytest.mark.parametrize("case", range(len(EDGES)))
def test_a_fit_at_the_edge_ends_in_a_release_whatever_row_is_there(case):
    name, settings = EDGES[case]
    with np.errstate(all="raise"):
        extremes = enumerate(EXTREMES.items())
        ends = {kind: ending(name, settings, extra, seed) for seed, (kind, extra) in extremes}
    assert ends == dict.fromkeys(EXTREMES, "released")


@needs_flags
@pytest.mark.parametrize("setting", [flushing, lambda: rounding("up")])
def test_no_setting_of_the_callers_thread_changes_what_is_released(setting):
    def weights():
        x = np.random.default_rng(1).normal(size=(200, WIDTH))
        data = PrivateEmbeddings(x, np.arange(200) % 2, classes=CLASSES, name="edge")
        fitted = METHODS["noisy-gd"](steps=3).fit(
            data, budget=Budget(epsilon=1.0, delta=1e-5), ledger=Ledger.in_memory(), noise=SeededNoise(3)
        )
        return fitted.head.weights

    wanted = weights()
    with setting():
        assert (weights() == wanted).all()


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("noisy-gd", {"clip": 1e13}),
        ("newton", {"ridge": 1e-37}),
        ("newton", {"clip": 1e150}),
        ("feature-covariance", {"ridge": 1e-13}),
        ("least-squares", {"alpha": 1e13}),
        ("least-squares", {"ridge": 1e-13}),
        ("adamix", {"public_weight": 1e13}),
        ("ppgd", {"reuse": 1e-13}),
        ("warm-start", {"prior_temperature": 1e13}),
        ("projection", {"clip": 1e13}),
        ("fully-private", {"clip": 1e-13}),
        ("global-adapt", {"count_weight": 17}),
        ("global-adapt", {"adapt_rate": 1e13}),
        ("public-prior", {"logit_noise": 1e13}),
        ("public-prior", {"clip": 1e-13}),
    ],
)
def test_settings_beyond_the_edge_are_refused_when_a_method_is_made(name, settings):
    (setting,) = settings
    with pytest.raises(ArgumentError, match=setting):
        METHODS[name](**settings)


@pytest.mark.parametrize("setting", ["reach", "radius", "weight_decay"])
@pytest.mark.parametrize("value", [1e-13, 1e13, 1e37, 1e200])
def test_a_pace_beyond_the_edge_is_refused(setting, value):
    with pytest.raises(ArgumentError, match=setting):
        Pace(**{setting: value})
