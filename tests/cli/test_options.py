"""What `--classes`, `--set data.FIELD=VALUE` and `--engine` declare."""

from pathlib import Path

import pytest

from dptransfer.base.workers import Processes, ThisProcess
from dptransfer.cli.options import ABOUT_DATA, SIZES, WorkerOptions, class_list, settings_of
from dptransfer.errors import ArgumentError


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


@pytest.mark.parametrize("text", ["", "cat", "-3", "0", "1", "1000001"])
def test_what_declares_no_classes_is_refused(text):
    with pytest.raises(ArgumentError, match="--classes"):
        class_list(text)


@pytest.mark.parametrize(
    ("content", "said"),
    [(b"\ncat\ndog\n", "blank line"), (b"cat\n  \ndog\n", "blank line"), (b"\xe9\nb\n", "UTF-8")],
)
def test_a_file_with_a_blank_line_between_names_or_in_another_encoding_is_refused(tmp_path, content, said):
    (tmp_path / "classes.txt").write_bytes(content)
    with pytest.raises(ArgumentError, match=said):
        class_list(str(tmp_path / "classes.txt"))


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
        ("data.class_counts=120;80", "type tuple"),
        ("data.size=many", "type int"),
        ("data.sise=5", "rows_per_person here"),
        ("data.labels=y.npy", "rows_per_person here"),  # a plan reads no data
        ("data.size", "field=value"),
        ("=5", "field=value"),
    ],
)
def test_settings_that_are_none_are_refused(text, said):
    with pytest.raises(ArgumentError, match=said):
        settings_of([text], SIZES)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (("spark", None, None), "processes or ray"),
        (("processes", 2, "head:6379"), "got --engine processes"),
        ((None, None, "head:6379"), "got --engine none"),
        (("ray", None, None), "--address none"),
        (("ray", None, "auto"), "Name a Ray cluster"),
    ],
)
def test_options_that_do_not_go_together_are_refused(given, said, monkeypatch):
    """Nor is a cluster taken that is named in the environment."""
    monkeypatch.setenv("RAY_ADDRESS", "head:6379")
    with pytest.raises(ArgumentError, match=said):
        WorkerOptions(*given).start()


@pytest.mark.parametrize(("gpus", "processes"), [(0, 1), (4, 4)])
def test_of_processes_on_gpus_there_is_one_for_each(gpus, processes, monkeypatch):
    monkeypatch.setattr("dptransfer.base.worker_env.gpu_count", lambda: gpus)
    assert WorkerOptions("processes").start("cuda") == Processes(processes)
    assert WorkerOptions("processes", 2).start("cuda") == Processes(2)
    assert WorkerOptions("processes").start("cpu") == Processes(None)
    assert WorkerOptions(None, 3).start() == Processes(3)
    assert isinstance(WorkerOptions().start(), ThisProcess)


def test_a_grey_range_that_is_none_is_refused_with_the_option(cli):
    for text in ("4095", "1,0", "a,b"):
        said = cli("plan", "-e", "1", "-m", "film", "--grey-range", text, code=2).stderr
        assert "such as --grey-range 0,4095" in said
