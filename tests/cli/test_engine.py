import sys

import pytest

from dptransfer.base.workers import Processes, ThisProcess
from dptransfer.cli.options import WorkerOptions
from dptransfer.data import PublicEmbeddings
from dptransfer.errors import ArgumentError, MissingDependency
from dptransfer.ledger import Ledger

FIT = ("--epsilon", "1", "--delta", "1e-5", "--classes", "cat,dog,bird", "--method", "public")


@pytest.mark.parametrize(
    ("engine", "workers", "address", "said"),
    [
        ("spark", None, None, "--engine must be processes or ray; got 'spark'"),
        ("processes", 0, None, "--workers must be 1 or more; got 0"),
        (None, -3, None, "--workers must be 1 or more; got -3"),
        ("processes", 2, "head:6379", "the engine is processes. Add --engine ray"),
        (None, None, "head:6379", "the engine is this process. Add --engine ray"),
        ("ray", None, None, "no --address was given"),
        ("ray", None, "auto", "none is looked for; got 'auto'"),
    ],
)
def test_options_that_do_not_go_together_are_refused(engine, workers, address, said):
    with pytest.raises(ArgumentError) as refusal:
        WorkerOptions(engine, workers, address).start()
    assert said in str(refusal.value)


def test_nothing_named_is_this_process_and_a_number_alone_means_processes():
    assert isinstance(WorkerOptions(None, None, None).start(), ThisProcess)
    assert WorkerOptions(None, 3, None).start() == WorkerOptions("processes", 3, None).start() == Processes(3)


@pytest.mark.parametrize(("gpus", "processes"), [(0, 1), (4, 4)])
def test_of_processes_on_gpus_there_is_one_for_each(gpus, processes, monkeypatch):
    monkeypatch.setattr("dptransfer.encoders.device.gpu_count", lambda: gpus)
    assert WorkerOptions("processes").start("cuda") == Processes(processes)
    assert WorkerOptions("processes", 2).start("cuda") == Processes(2)
    assert WorkerOptions("processes").start("cpu") == Processes(None)


def test_a_cluster_named_in_the_environment_is_not_taken(monkeypatch):
    monkeypatch.setenv("RAY_ADDRESS", "head:6379")
    with pytest.raises(ArgumentError, match="cluster that you"):
        WorkerOptions("ray", None, None).start()


def test_without_ray_nothing_is_charged(cli, data, ledger, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    words = (*FIT, "--public", data / "pool.npz", "--engine", "ray", "--address", "head:6379")
    assert "dptransfer[ray]" in cli("fit", data / "private.npz", *words, code=2).stderr
    assert not ledger.exists() or not Ledger(ledger).history()
    with pytest.raises(MissingDependency):
        WorkerOptions("ray", None, "head:6379").start()


@pytest.fixture
def given_to(monkeypatch):
    """Whom pools are given to."""
    found, usual = [], PublicEmbeddings.with_workers

    def recorded(self, workers):
        found.append(workers)
        return usual(self, workers)

    monkeypatch.setattr(PublicEmbeddings, "with_workers", recorded)
    return found


def test_fit_gives_the_pool_to_them(cli, data, given_to):
    words = (*FIT, "--public", data / "pool.npz", "--set", "lowest=0.5", "--out", "model")
    cli("fit", data / "private.npz", *words, "--engine", "processes", "--workers", "2")
    assert given_to == [Processes(2)]


def test_check_gives_the_pool_to_them(cli, data, given_to, monkeypatch):
    monkeypatch.setattr("dptransfer.api.checkup.why_no_forecast", lambda *_: "")  # too few rows
    monkeypatch.setattr("dptransfer.api.checkup.expected_accuracy", lambda *_: ())
    words = ("--public", data / "pool.npz", "--classes", "cat,dog,bird")
    cli("check", data / "private.npz", *words, "--engine", "processes", "--workers", "1")
    assert given_to == [Processes(1)]
