import multiprocessing
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from dptransfer.base import worker_env
from dptransfer.base.worker_env import environment_of_task, own_core, start_process, take_gpu, usable_cores


def test_cores_are_those_that_this_process_may_use_or_all_where_nobody_can_tell(monkeypatch):
    assert usable_cores() == len(os.sched_getaffinity(0))
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    assert usable_cores() == os.cpu_count()


def test_a_process_beside_this_one_imports_what_this_one_can_on_one_thread(monkeypatch, tmp_path):
    (tmp_path / "only_here.py").write_text(
        "import dptransfer, os\ndef serve(handle): os.write(handle, os.environ['OMP_NUM_THREADS'].encode())\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    ours, theirs = os.pipe()
    with start_process("only_here", theirs) as child:
        os.close(theirs)
        assert os.read(ours, 9) == b"1"
    os.close(ours)
    assert child.returncode == 0


def test_a_task_has_this_package_others_and_the_users_paths(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", "/users")
    given = environment_of_task(Path("/others"))
    assert given["PYTHONPATH"].split(os.pathsep)[1:] == ["/others", "/users"]
    assert (Path(given["PYTHONPATH"].split(os.pathsep)[0]) / "dptransfer" / "base").is_dir()
    assert given["OPENBLAS_NUM_THREADS"] == "1"
    monkeypatch.delenv("PYTHONPATH")
    assert os.pathsep not in environment_of_task()["PYTHONPATH"]  # nor the folder where a task happens to be


@pytest.fixture
def user(monkeypatch):
    """A user of this test's own: others may be running tasks on this machine."""
    name = f"of-{os.getpid()}"
    monkeypatch.setattr("os.getuid", lambda: name)
    return name


@pytest.fixture
def chosen(user, monkeypatch):
    """Four cores, whatever the machine has; every choice of cores is written down."""
    if not hasattr(os, "sched_setaffinity"):
        pytest.skip("cores cannot be chosen here")
    made = []
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: {0, 1, 2, 3})
    monkeypatch.setattr("os.sched_setaffinity", lambda pid, cores: made.append(cores))
    return made


def test_tasks_side_by_side_have_different_cores(chosen):
    with own_core(), own_core(), own_core():
        assert chosen == [{0}, {1}, {2}]
    assert chosen[3:] == [[0, 1, 2, 3]] * 3  # and afterwards all of them again


def test_a_process_that_is_killed_holds_no_core(chosen, user):
    code = (
        f"import os\nos.getuid = lambda: {user!r}\n"
        "os.sched_getaffinity = lambda pid: {0, 1}\nos.sched_setaffinity = lambda pid, cores: None\n"
        "from dptransfer.base.worker_env import own_core\n"
        "with own_core():\n    print('claimed', flush=True)\n    input()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout.readline() == "claimed\n"
        with own_core():
            assert chosen[-1] == {1}
        other.kill()
        other.wait()
        with own_core():
            assert chosen[-1] == {0}


@pytest.fixture
def worker(monkeypatch):
    """Makes this process look like a worker of that name, on a machine with so many GPUs."""

    def look(name, gpus, seen=None):
        monkeypatch.setattr(multiprocessing, "current_process", lambda: SimpleNamespace(name=name))
        monkeypatch.setattr(multiprocessing, "parent_process", lambda: None if name == "MainProcess" else 1)
        monkeypatch.setattr(worker_env, "gpu_count", lambda: gpus)
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
        if seen is not None:
            monkeypatch.setenv("CUDA_VISIBLE_DEVICES", seen)
        take_gpu()
        return os.environ.get("CUDA_VISIBLE_DEVICES")

    return look


def test_each_worker_takes_a_gpu_of_its_own_as_long_as_there_are_enough(worker):
    assert {worker(f"SpawnProcess-{number}", 4) for number in range(1, 5)} == {"0", "1", "2", "3"}
    assert {worker(f"SpawnProcess-{number}", 4, "7,5") for number in (3, 4)} == {"7", "5"}


def test_one_gpu_none_or_no_worker_change_nothing(worker):
    assert worker("SpawnProcess-2", 1) is None
    assert worker("SpawnProcess-2", 0) is None
    assert worker("SpawnProcess-2", 4, "6") == "6"
    assert worker("MainProcess", 4) is None
