"""Call a release by the clients of others: Triton, KServe and MLflow, as they come.

    python -m venv clients
    clients/bin/pip install '.[serve]' 'tritonclient[http]' kserve mlflow-skinny pandas
    clients/bin/python benchmarks/clients.py

Makes a small release with a hold-out, serves it on this machine, asks each client for labels, scores and
sets, and compares them with the library's own. A client that is not installed is named.
"""

from __future__ import annotations

import asyncio
import importlib.util
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

import dptransfer as dpt

PORT = 18431
URL = f"127.0.0.1:{PORT}"


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        path, rows = make_release(Path(folder))
        model = dpt.load(path)
        with server(path):
            for client, module in CLIENTS.items():
                if importlib.util.find_spec(module) is None:
                    print(f"{module}: not installed")
                    continue
                labels, scores = client(path, rows)
                assert list(map(str, labels)) == list(map(str, model.predict(rows))), module
                if scores is not None:
                    np.testing.assert_allclose(scores, model.predict_proba(rows), atol=1e-6)
                print(f"{module}: {len(labels)} answers as the library's own")


def make_release(folder: Path) -> tuple[Path, np.ndarray]:
    rng = np.random.default_rng(0)
    centres = 3 * rng.normal(size=(3, 8))
    y = rng.integers(0, 3, 3000)
    x = (centres[y] + rng.normal(size=(3000, 8))).astype("float32")
    model = dpt.fit(
        x, y, classes=["a", "b", "c"], epsilon=4, holdout=0.3, name="toy", ledger=dpt.Ledger.in_memory()
    )
    return model.save(folder / "model"), x[:50]


@contextmanager
def server(path: Path) -> Iterator[None]:
    command = [sys.executable, "-m", "dptransfer", "serve", str(path), "--port", str(PORT)]
    process = subprocess.Popen(command)
    try:
        for _ in range(300):
            try:
                urllib.request.urlopen(f"http://{URL}/v2/health/ready", timeout=1)
                break
            except (urllib.error.URLError, ConnectionError):
                time.sleep(0.1)
        yield
    finally:
        process.terminate()
        process.wait(timeout=20)


def triton(path: Path, rows: np.ndarray) -> tuple[list[str], np.ndarray]:
    from tritonclient import http

    client = http.InferenceServerClient(URL)
    asked = http.InferInput("rows", list(rows.shape), "FP32")
    asked.set_data_from_numpy(rows)
    answer = client.infer(path.name, [asked])
    return [label.decode() for label in answer.as_numpy("label")], answer.as_numpy("scores")


def kserve(path: Path, rows: np.ndarray) -> tuple[list[str], np.ndarray]:
    from kserve import InferenceRESTClient, InferInput, InferRequest, RESTConfig

    async def ask() -> tuple[list[str], np.ndarray]:
        client = InferenceRESTClient(RESTConfig(protocol="v2"))
        assert await client.is_server_ready(f"http://{URL}")
        asked = InferInput("rows", list(rows.shape), "FP32")
        asked.set_data_from_numpy(rows, binary_data=False)
        request = InferRequest(path.name, [asked], parameters={"coverage": 0.8})
        answer = await client.infer(f"http://{URL}", request, model_name=path.name)
        found = {one.name: one.as_numpy() for one in answer.outputs}
        assert found["set"].shape == (len(rows), 3)
        labels = [text.decode() if isinstance(text, bytes) else str(text) for text in found["label"]]
        return labels, found["scores"]

    return asyncio.run(ask())


def mlflow(path: Path, rows: np.ndarray) -> tuple[list[str], None]:
    import mlflow.pyfunc
    import pandas as pd

    model = mlflow.pyfunc.load_model(str(path))
    assert model.metadata.metadata["epsilon"] == dpt.load(path).guarantee.epsilon
    labels = list(model.predict(rows.astype("float64")))
    assert labels == list(model.predict(rows.astype("float64"), params={}))
    records = model.predict(rows.astype("float64"), params={"coverage": 0.8})
    assert [one["label"] for one in records] == labels
    assert all(one["set"] for one in records)
    table = pd.DataFrame(rows)
    assert list(dpt_mlflow(path).predict(table)) == labels
    return labels, None


def dpt_mlflow(path: Path):  # type: ignore[no-untyped-def]
    from dptransfer.mlflow import _load_pyfunc

    return _load_pyfunc(str(path))


CLIENTS: dict[Callable[..., tuple[list[str], np.ndarray | None]], str] = {
    triton: "tritonclient",
    kserve: "kserve",
    mlflow: "mlflow",
}

if __name__ == "__main__":
    main()
