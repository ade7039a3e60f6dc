from dataclasses import replace

import numpy as np
import pytest

from dptransfer.errors import ArgumentError, DPTransferError
from dptransfer.exact.public_map import PublicMap
from dptransfer.ledger import Ledger
from dptransfer.methods import METHODS, FromNames, MeanPrototypes
from dptransfer.sources import PrivateImages
from dptransfer.testing.contract import ContractBroken
from dptransfer.testing.method_rules import METHOD_CHECKS, check_method
from dptransfer.testing.sample_data import ROWS, RecordedAnswers, budget_for, fit_sample

from .cheats import CHEATS, PICTURE_CHEATS, Boasts, Overspends, ReleasesRows
from .pictures import PICTURES, quick

CAUGHT = (AssertionError, DPTransferError, ValueError, IndexError)


def small(name):
    """The method as it comes, but Auto with two candidates (it tries each of them on several tasks), and a
    named tower for the method that has no default; methods on pictures with a tiny network, and sums before
    steps without samples, which take long to account for together and have tests of their own.
    """
    if name == "language":
        return METHODS[name](start=FromNames(tower="toy"))
    if METHODS[name].takes is PrivateImages:
        return quick(METHODS[name])
    if name in ("warm-start", "projection"):
        return METHODS[name](sampling_rate=1.0)
    if name == "auto":
        return METHODS[name](candidates=(MeanPrototypes(), MeanPrototypes(features=PublicMap(axes=3))))
    return METHODS[name]()


@pytest.mark.parametrize("check", METHOD_CHECKS)
@pytest.mark.parametrize("name", METHODS)
def test_every_method_passes(name, check):
    METHOD_CHECKS[check](small(name))


@pytest.mark.parametrize(
    ("check", "cheat"),
    [
        pytest.param(check, cheat, id=f"{check}-{cheat.__name__}")
        for check in CHEATS
        for cheat in CHEATS[check]
    ],
)
def test_every_check_catches_a_method_that_cheats(check, cheat):
    with pytest.raises(CAUGHT):
        METHOD_CHECKS[check](cheat())
    METHOD_CHECKS[check](MeanPrototypes())


@pytest.mark.parametrize("check", PICTURE_CHEATS)
def test_what_is_about_pictures_catches_a_method_on_pictures_that_cheats(check):
    with pytest.raises(CAUGHT):
        METHOD_CHECKS[check](quick(PICTURE_CHEATS[check]))


@pytest.mark.parametrize("name", [name for name, kind in METHODS.items() if kind.takes is PrivateImages])
def test_a_plan_of_pictures_loads_no_network(name):
    """A release names its encoder, and `verify` plans again: what others wrote must not be imported."""
    method = replace(quick(METHODS[name]), encoder="no.such.module:network")
    assert method.plan(PICTURES.facts, budget_for(method), PICTURES.pool).events


def test_one_call_tries_every_rule_and_names_the_broken_one():
    check_method(MeanPrototypes)
    with pytest.raises(ContractBroken) as broken:
        check_method(ReleasesRows())
    assert "order" in str(broken.value)
    with pytest.raises(ArgumentError):
        check_method(MeanPrototypes, skip=["no such rule"])
    every = [*METHOD_CHECKS]
    check_method(ReleasesRows, skip=every)


def test_noise_belongs_to_a_mechanisms_answer():
    noise = RecordedAnswers(1)
    assert noise.draw_once("a sum", lambda: noise.discrete_gaussian(2.0, (3,))).shape == (3,)
    with pytest.raises(ContractBroken):
        noise.discrete_gaussian(2.0, (3,))
    replayed = RecordedAnswers(1, noise.answers)
    with pytest.raises(ContractBroken):
        replayed.draw_once("another sum", lambda: np.zeros(3))
    assert (RecordedAnswers(1, noise.answers).draw_once("a sum", list) == noise.answers[0][1]).all()


def test_every_check_has_a_cheat():
    assert CHEATS.keys() == METHOD_CHECKS.keys()


@pytest.mark.parametrize("cheat", [Overspends, Boasts])
def test_a_dishonest_plan_is_refused_before_anything_is_read_or_charged(cheat):
    data, ledger = ROWS.private(), Ledger.in_memory()
    with pytest.raises(DPTransferError, match="read or charged"):
        fit_sample(cheat(), data, ledger=ledger)
    assert data.reads == 0
    assert ledger.history() == []
