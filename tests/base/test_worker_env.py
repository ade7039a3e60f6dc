import os
import subprocess
import sys
from pathlib import Path

import pytest

from dptransfer.base.worker_env import environment_of_task, own_core, start_process, usable_cores


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
