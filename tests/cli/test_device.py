"""`--device`: reaches every method that can compute there, and says so of those that cannot."""

from dataclasses import fields

import pytest

from dptransfer.cli import device as subject
from dptransfer.cli.device import devices_of, on_device
from dptransfer.cli.settings import method_from
from dptransfer.cli.tuning import Tuning
from dptransfer.errors import ArgumentError
from dptransfer.methods import METHODS, AdaMix, LeastSquares, NoisyGD

BUDGET = ("--epsilon", "1", "--delta", "1e-5")
PLAN = ("plan", *BUDGET, "--classes", "3", "--dim", "16")
ABLE = [name for name, kind in METHODS.items() if "cuda" in devices_of(kind())]


@pytest.mark.parametrize("name", METHODS)
def test_every_method_moves_or_says_that_it_cannot(name):
    if name in ABLE:
        assert on_device(METHODS[name](), "cuda").device == "cuda"
        return
    with pytest.raises(ArgumentError, match=f"'{name}', as it is set, computes on cpu alone"):
        on_device(METHODS[name](), "cuda")


def test_the_methods_that_have_a_choice_are_these():
    assert {"mean", "mean-estimation", "public", "top-k", "noisy-gd", "dpsgd", "ngd"} <= set(ABLE)
    without = {name for name, kind in METHODS.items() if "device" not in {one.name for one in fields(kind)}}
    assert {"least-squares", "newton", "only-public"} <= without
    assert not without & set(ABLE)


def test_a_setting_decides_whether_a_method_can_move():
    assert on_device(AdaMix(), "cuda").device == "cuda"
    with pytest.raises(ArgumentError, match="as it is set"):
        on_device(AdaMix(axes=64), "cuda")


def test_no_device_and_the_cpu_change_nothing():
    for device in (None, "cpu"):
        assert on_device(LeastSquares(), device) == LeastSquares()


def test_of_a_choice_each_moves():
    tuned = method_from("noisy-gd", {}, tuning=Tuning(["steps=2,5"]), device="cuda")
    assert [one.device for one in tuned.candidates] == ["cuda", "cuda"]


def test_behind_an_encoder_a_method_follows_where_it_can(monkeypatch):
    assert on_device(LeastSquares(), "cuda", encodes=True) == LeastSquares()
    assert on_device(NoisyGD(), "mps", encodes=True) == NoisyGD()
    for there, device in ((True, "cuda"), (False, "cpu")):
        monkeypatch.setattr(subject, "_all_there", lambda there=there: there)
        assert on_device(NoisyGD(), "cuda", encodes=True).device == device


def test_what_methods_need_of_a_gpu_is_asked_of_the_machine(monkeypatch):
    def missing():
        raise ArgumentError("device='cuda' needs Triton; it is not installed.")

    monkeypatch.setattr("dptransfer.compute.device.require_cuda", missing)
    assert on_device(NoisyGD(), "cuda", encodes=True).device == "cpu"
    monkeypatch.setattr("dptransfer.compute.device.require_cuda", lambda: None)
    assert on_device(NoisyGD(), "cuda", encodes=True).device == "cuda"


def test_a_plan_takes_it_and_costs_the_same(cli_json):
    there = cli_json(*PLAN, "-m", "noisy-gd", "--device", "cuda")
    assert there["configuration"]["device"] == "cuda"
    assert there["events"] == cli_json(*PLAN, "-m", "noisy-gd")["events"]


def test_refusals_name_those_that_can(cli, data, ledger):
    said = cli(*PLAN, "-m", "newton", "--device", "cuda", code=2).stderr
    assert "'newton', as it is set, computes on cpu alone" in said
    assert ", ".join(ABLE) in said
    assert "computes on cpu or cuda alone" in cli(*PLAN, "-m", "mean", "--device", "cuda:1", code=2).stderr
    words = (*BUDGET, "--classes", "cat,dog,bird", "-m", "newton", "--device", "cuda", "--out", "model")
    assert "computes on cpu alone" in cli("fit", data / "private.npz", *words, code=2).stderr
    assert not ledger.exists()


def test_a_gpu_that_is_not_there_is_missed_before_the_charge(cli, data, monkeypatch):
    def missing():
        raise ArgumentError("device='cuda' needs a CUDA device; torch finds none. Use device='cpu'.")

    monkeypatch.setattr("dptransfer.compute.device.require_cuda", missing)
    words = (*BUDGET, "--classes", "cat,dog,bird", "-m", "noisy-gd", "--device", "cuda", "--out", "model")
    said = cli("fit", data / "private.npz", *words, code=2).stderr
    assert "--device cuda needs a CUDA device; torch finds none. Use --device cpu" in said
    assert "Nothing" not in said
    assert cli("ledger", "show").stdout.count("noisy-gd") == 0
