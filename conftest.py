"""No test touches the user's ledger or cache; processes that start at once; packages that look installed."""

import gc
import multiprocessing
import os
import shutil
import socket
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

# Tests start many processes, and each of them would compile the library again.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
# Problems as small as these are only slowed down by more threads, which spin while they wait for each other.
for library in ("OMP", "OPENBLAS", "MKL"):
    os.environ.setdefault(f"{library}_NUM_THREADS", "1")


def pytest_collection_finish():
    """Ten thousand tests and what they import stay to the end: no garbage is looked for among them."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True, scope="session")
def cache_in_a_temporary_folder(tmp_path_factory):
    """Point both at temporary folders."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DPTRANSFER_CACHE", str(tmp_path_factory.mktemp("cache")))
        patch.setenv("DPTRANSFER_LEDGER", str(tmp_path_factory.mktemp("ledger") / "ledger.sqlite"))
        yield


@pytest.fixture(autouse=True)
def no_pool_of_another_test():
    """Pools are cached by content, and many tests make the same one: each encodes its own."""
    yield
    for pool in Path(os.environ.get("DPTRANSFER_CACHE", os.devnull)).glob("pool-*.emb"):
        shutil.rmtree(pool, ignore_errors=True)


@pytest.fixture
def repeatable_noise(monkeypatch):
    """Noise that is the same in every run where none is given, so that no accuracy is a matter of luck."""
    from messages import repeat_noise

    repeat_noise(monkeypatch)


@pytest.fixture(scope="session")
def chromium():
    """The system's Chromium, headless; it finds rebound.example on this machine."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
    path = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if path is None:
        pytest.skip("no Chromium is here")
    with sync_api.sync_playwright() as started:
        settings = ["--no-sandbox", "--host-resolver-rules=MAP rebound.example 127.0.0.1"]
        browser = started.chromium.launch(executable_path=path, args=settings)
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def processes():
    """Real processes, forked from a clean one that has the library imported already."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(
        ["dptransfer.methods.heads.noisy_gd", "dptransfer.ledger", "scipy.special"]
    )
    return context


@pytest.fixture
def ended(processes):
    """Gives the exit code of a function in a process of its own."""

    def exit_code(work, *given):
        child = processes.Process(target=work, args=given)
        child.start()
        child.join()
        return child.exitcode

    return exit_code


@pytest.fixture
def ray(monkeypatch):
    """Ray, whose workers can import these tests; whatever is connected in a test ends with it."""
    ray = pytest.importorskip("ray")
    paths = os.pathsep.join(
        filter(None, [str(Path(__file__).parent / "tests"), os.environ.get("PYTHONPATH")])
    )
    monkeypatch.setenv("PYTHONPATH", paths)
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    monkeypatch.setenv("GRPC_ENABLE_FORK_SUPPORT", "0")  # what a cluster forks for a client may die of it
    yield ray
    ray.shutdown()


@pytest.fixture
def two_nodes(ray):
    """A Ray cluster of two nodes on this machine; `from_outside` is its address for those that are none."""
    from ray.cluster_utils import Cluster

    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    small = {"num_cpus": 1, "object_store_memory": 100_000_000, "include_dashboard": False}
    cluster = Cluster(initialize_head=True, head_node_args={**small, "ray_client_server_port": port})
    host = cluster.address.split(":")[0]
    cluster.from_outside = f"ray://{host}:{port}"
    cluster.second = cluster.add_node(**small)
    for _ in range(600):  # Ray does not wait until somebody listens there
        with suppress(OSError), socket.create_connection((host, port)):
            break
        time.sleep(0.1)
    yield cluster
    ray.shutdown()
    cluster.shutdown()


@pytest.fixture
def install(tmp_path_factory):
    """Puts modules on the path as an installer would leave them; gives what uninstalls them."""
    undo = []

    def installed(name, modules, entry_points, version="1.0"):
        folder = tmp_path_factory.mktemp("site-packages")
        for module, code in modules.items():
            (folder / f"{module}.py").write_text(code)
        metadata = folder / f"{name.replace('-', '_')}-{version}.dist-info"
        metadata.mkdir()
        (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        groups = (
            "\n".join([f"[{group}]", *(f"{entry} = {place}" for entry, place in places.items())])
            for group, places in entry_points.items()
        )
        (metadata / "entry_points.txt").write_text("\n".join(groups))
        sys.path.insert(0, str(folder))

        def uninstall():
            sys.path[:] = [place for place in sys.path if place != str(folder)]
            for module in modules:
                sys.modules.pop(module, None)

        undo.append(uninstall)
        return uninstall

    yield installed
    for uninstall in undo:
        uninstall()
