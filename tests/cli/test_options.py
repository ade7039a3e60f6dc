"""What `--classes`, `--set data.FIELD=VALUE` and `--engine` declare."""

import sys
from pathlib import Path

import pytest

from dptransfer.base.workers import Processes, ThisProcess
from dptransfer.cli.options import ABOUT_DATA, SIZES, WorkerOptions, class_list, settings_of
from dptransfer.data import PublicEmbeddings
from dptransfer.errors import ArgumentError, MissingDependency
from dptransfer.ledger import Ledger


def test_classes_are_a_number_a_list_or_a_file(tmp_path):
    assert class_list("3") == (0, 1, 2)
    assert class_list(" cat, dog ") == ("cat", "dog")
    assert class_list("4,7") == (4, 7)
    assert class_list("007,8") == ("007", "8")
    file = tmp_path / "classes.txt"
    file.write_text("café\r\n dog \r\n\r\n", encoding="utf-8-sig")
    assert class_list(str(file)) == ("café", "dog")


@pytest.mark.parametrize("text", ["cat,,dog", "cat, ,dog", ",cat,dog", "cat,dog,"])
def test_an_empty_name_in_a_list_is_refused(text):
    """Left out silently, it would move the classes after it, and labels may be places in the list."""
    with pytest.raises(ArgumentError, match="name every class"):
        class_list(text)


@pytest.mark.parametrize("text", ["\ncat\ndog\n", "cat\n  \ndog\n"])
def test_a_blank_line_between_names_is_refused(tmp_path, text):
    file = Path(tmp_path / "classes.txt")
    file.write_text(text, encoding="utf-8")
    with pytest.raises(ArgumentError, match="blank line"):
        class_list(str(file))


@pytest.mark.parametrize("text", ["", "cat", "-3", "0", "1", "1000001"])
def test_what_declares_no_classes_is_refused(text):
    with pytest.raises(ArgumentError, match="--classes"):
        class_list(text)


def test_a_file_in_another_encoding_is_refused(tmp_path):
    file = tmp_path / "classes.txt"
    file.write_bytes("é\nb\n".encode("latin-1"))
    with pytest.raises(ArgumentError, match="it as UTF-8"):
        class_list(str(file))


def test_settings_are_of_the_method_or_with_data_in_front_of_the_data():
    texts = ["k = 5", "pace.reach=2=3", "data.size=900", "data.class_counts=120, 80", "data.labels=y.npy"]
    told = ["data.new_data_set=true", "data.split=7"]
    assert settings_of([*texts, *told], ABOUT_DATA) == (
        {"k": "5", "pace.reach": "2=3"},
        {"size": 900, "class_counts": (120, 80), "labels": Path("y.npy"), "new_data_set": True, "split": "7"},
    )
    assert settings_of(None, SIZES) == ({}, {})


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("data.class_counts=120;80", "'class_counts' must be of the type tuple"),
        ("data.size=many", "'size' must be of the type int"),
        ("data.sise=5", "one of size, class_counts, person_bound, rows_per_person here; got 'sise'"),
        (
            "data.labels=y.npy",
            "one of size, class_counts, person_bound, rows_per_person here",
        ),  # a plan reads no data
        ("data.size", "--set takes field=value"),
        ("=5", "--set takes field=value"),
    ],
)
def test_settings_that_are_none_are_refused(text, said):
    with pytest.raises(ArgumentError, match=said):
        settings_of([text], SIZES)


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
