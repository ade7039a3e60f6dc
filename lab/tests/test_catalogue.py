import pytest

from dptransfer.errors import DataError
from dptransfer_lab.catalogue import find_study, starting_point
from dptransfer_lab.study import parse_study


def test_unknown_names_and_missing_files_are_told_apart():
    with pytest.raises(DataError, match=r"one of .*demo"):
        find_study("nowhere")
    with pytest.raises(DataError, match="there is none"):
        find_study("nowhere.toml")
    assert find_study("demo")[0].name == "demo"


def test_a_starting_point_for_ones_own_data(toy):
    (toy / "inner").mkdir()
    target = toy / "inner" / "my sweep.toml"
    with_pool = parse_study(starting_point(target, toy / "toy.npz", toy / "pool.npz"))
    assert with_pool.name == "my-sweep"
    assert with_pool.data[0].source["encoder"].train == "../toy.npz"
    assert with_pool.data[0].pool == ("pool",)
    assert with_pool.imbalance == (0.0,)
    alone = parse_study(starting_point(target, toy / "toy.npz"))
    assert alone.data[0].pool == ("none",)
    assert {method.name for method in alone.method} == {"mean", "mean-estimation"}
    with pytest.raises(DataError, match="must exist"):
        starting_point(target, toy / "missing.npz")


def test_a_starting_point_runs_on_the_demo_data_and_its_commented_lines_are_valid_too(tmp_path):
    text = starting_point(tmp_path / "sweep.toml")
    plain = parse_study(text)
    assert (plain.name, plain.data[0].source["pixels"].train) == ("sweep", "demo")
    names = "shots unit attack instance_loss oracle declare only [[budget]] pure".split()
    hints = tuple(f"# {name}" for name in names)
    lines = [line[2:] if line.startswith(hints) else line for line in text.splitlines()]
    study = parse_study("\n".join(lines))
    assert (study.shots, study.unit) == ((0, 5), ("row", "person"))
    assert study.method[-1].declare == "size"
