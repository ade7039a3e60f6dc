"""Witness coordinates: their law, that they change nothing else, and that what is wrong with them shows."""

import hashlib
from dataclasses import replace

import numpy as np
import pytest

from dptransfer.data import PrivateEmbeddings
from dptransfer.errors import ArgumentError
from dptransfer.ledger import Charge, Ledger
from dptransfer.mechanisms.witness import WitnessLog
from dptransfer.methods import METHODS, MeanPrototypes, NoisyGD
from dptransfer.methods.tuning import PrivateTuning
from dptransfer.noise import SecureNoise, SeededNoise
from dptransfer.privacy import Budget
from dptransfer.privacy.witnesses import (
    Witnesses,
    shape_p_value,
    size_p_value,
    size_upper_limit,
    tail_p_value,
)
from dptransfer.release.verify import verify_files

BUDGET = Budget(epsilon=1.0, delta=1e-5)


class Quiet(SecureNoise):
    """A tenth less noise than was asked for."""

    def discrete_gaussian(self, scale, shape):
        return super().discrete_gaussian(0.9 * scale, shape)


def fitted(method=None, noise=None, ledger=None, **more):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 200)
    data = PrivateEmbeddings(rng.normal(size=(200, 8)), y, classes=["a", "b", "c"], name="samples")
    ledger = ledger or Ledger.in_memory()
    return (method or MeanPrototypes()).fit(data, budget=BUDGET, ledger=ledger, noise=noise, **more)


@pytest.mark.parametrize("name", ["mean", "noisy-gd", "dpsgd", "warm-start", "newton", "feature-covariance"])
def test_witnesses_change_nothing_that_a_seed_gives(name):
    method = METHODS[name]()
    with_them, without = (fitted(method, SeededNoise(3), witnesses=on) for on in (True, False))
    assert with_them.witnesses is not None
    assert without.witnesses is None
    for key, array in without.weights.items():
        assert np.array_equal(with_them.weights[key], array)


def test_every_round_of_a_run_has_its_witnesses():
    model = fitted(NoisyGD(steps=7))
    (law,) = model.witnesses.laws
    assert (law.answers, law.noise_multiplier) == (7, model.events[0].noise_multiplier)
    assert len(model.witnesses.values) == law.answers * law.each <= 4096


def test_the_ledger_has_the_digest_of_the_coins_on_record():
    ledger = Ledger.in_memory()
    model = fitted(ledger=ledger)
    (charge,) = (one for one in ledger.history() if isinstance(one, Charge))
    assert charge.coins == model.witnesses.digest
    assert charge.coins == hashlib.sha256(bytes.fromhex(model.witnesses.seed)).hexdigest()


def test_coins_and_noise_have_their_law_and_canaries_arrive_whole():
    found = fitted().witnesses
    assert abs(found.coins.mean() - 0.5) < 0.05
    p_values = size_p_value(found.draws), shape_p_value(found.draws), tail_p_value(found.draws)
    assert min(p_values) > 1e-6
    half = replace(found, values=found.values - 8 * found.coins)  # canaries of another size
    assert shape_p_value(half.draws) < 1e-6


def test_verify_sees_too_little_noise_in_the_release_alone(tmp_path):
    fitted().save(tmp_path / "sound")
    fitted(noise=Quiet()).save(tmp_path / "quiet")
    assert verify_files(tmp_path / "sound").failures == ()
    assert verify_files(tmp_path / "quiet").failures == ("witnesses",)


def test_a_script_that_knows_nothing_of_the_library_recomputes_the_size_of_the_noise(tmp_path):
    import json

    from safetensors.numpy import load_file

    path = fitted().save(tmp_path / "model")
    told = json.loads((path / "release.json").read_text())["witnesses"]
    values = load_file(path / "model.safetensors")["witnesses"]
    coins = np.unpackbits(
        np.frombuffer(hashlib.shake_256(bytes.fromhex(told["seed"])).digest(-(-len(values) // 8)), np.uint8)
    )[: len(values)]
    (law,) = told["laws"]
    canary = np.floor(law["sensitivity"] * law["grid"]) / law["grid"]
    draws = (values - canary * coins) / (law["noise_multiplier"] * law["sensitivity"])
    assert abs(draws.std() - 1) < 0.06  # five standard errors


def test_trials_that_are_thrown_away_have_no_witnesses():
    assert fitted(PrivateTuning(candidates=(MeanPrototypes(), NoisyGD(steps=2)))).witnesses is None


def test_witnesses_that_do_not_fit_together_are_refused():
    found = fitted().witnesses
    for fields, values in (
        (found.to_dict() | {"seed": "00"}, found.values),
        (found.to_dict(), found.values[1:]),
        (found.to_dict() | {"laws": [found.to_dict()["laws"][0] | {"sensitivity": 1e300}]}, found.values),
    ):
        with pytest.raises(ArgumentError):
            Witnesses.from_dict(fields, values)


def test_the_deviation_of_draws_is_below_its_upper_limit_as_often_as_promised():
    draws = np.random.default_rng(0).normal(0.0, 2.0, (2000, 50))
    limits = np.array([size_upper_limit(own, 0.1) for own in draws])
    assert (limits < 2.0).mean() == pytest.approx(0.1, abs=0.03)


def test_a_run_without_answers_has_no_witnesses():
    assert WitnessLog("0" * 64, 4).witnesses is None
