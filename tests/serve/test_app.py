"""The routes of a server, as a client meets them."""

import asyncio
import json
import time
from dataclasses import replace
from io import BytesIO

import numpy as np
import pytest
from PIL import Image
from starlette.testclient import TestClient

from dptransfer.errors import ArgumentError, DataError
from dptransfer.serve import Limits, make_app
from dptransfer.serve import app as serve_app
from release.counts import evaluation
from release.models import CLASSES, DIMENSION, make_model, rows

X = rows(4)
MODEL = replace(make_model("linear"), charged=evaluation())


def serving(model=MODEL, **how):
    return TestClient(make_app(model, name="m", digest="ab", card="<p>card</p>", **how))


def asked(x=X, **told):
    return {
        "inputs": [{"name": "rows", "datatype": "FP32", "shape": list(x.shape), "data": x.tolist()}],
        **told,
    }


@pytest.fixture(scope="module")
def client():
    with serving() as found:
        yield found


def test_a_client_finds_health_metadata_and_card(client):
    assert client.get("/v2/health/live").json() == {"live": True}
    assert client.get("/v2/health/ready").json() == {"ready": True}
    assert client.get("/ping").status_code == 200
    assert client.get("/v2").json()["extensions"] == ["binary_tensor_data"]
    assert client.get("/v2/models/m/ready").json() == {"name": "m", "ready": True}
    told = client.get("/v2/models/m").json()
    assert [one["name"] for one in told["inputs"]] == ["rows"]
    assert [one["name"] for one in told["outputs"]] == ["label", "scores", "set"]
    promise = MODEL.guarantee
    facts = {"epsilon": promise.epsilon, "delta": promise.delta, "unit": "row", "release_sha256": "ab"}
    assert told["parameters"].items() >= facts.items()
    page = client.get("/")
    assert page.text == "<p>card</p>"
    assert "default-src 'none'" in page.headers["content-security-policy"]
    assert client.get("/v2/models/other").status_code == 404


def test_answers_are_those_of_the_model(client):
    found = client.post("/v2/models/m/infer", json=asked(id="7", parameters={"coverage": 0.6})).json()
    outputs = {one["name"]: np.reshape(one["data"], one["shape"]) for one in found["outputs"]}
    assert found["id"] == "7"
    assert outputs["label"].tolist() == MODEL.predict(X).tolist()
    assert np.allclose(outputs["scores"], MODEL.predict_proba(X), atol=1e-6)
    assert (outputs["set"] == MODEL.predict_sets(X, coverage=0.6).members).all()


def test_answers_come_as_bytes_where_they_are_wanted(client):
    x = X.astype("<f8")
    head = asked(parameters={"binary_data_output": True})
    size = {"binary_data_size": x.nbytes}
    head["inputs"][0] = {"name": "rows", "datatype": "FP64", "shape": list(x.shape), "parameters": size}
    content = json.dumps(head).encode()
    header = {"Inference-Header-Content-Length": str(len(content))}
    found = client.post("/v2/models/m/infer", content=content + x.tobytes(), headers=header)
    end = int(found.headers["Inference-Header-Content-Length"])
    label, scores = json.loads(found.content[:end])["outputs"]
    start = end + label["parameters"]["binary_data_size"]
    told = np.frombuffer(found.content[start:], "<f4").reshape(scores["shape"])
    assert np.allclose(told, MODEL.predict_proba(X), atol=1e-6)


def test_mlflows_clients_get_labels_and_sets(client):
    assert client.post("/invocations", json={"inputs": X.tolist()}).json() == {
        "predictions": MODEL.predict(X).tolist()
    }
    told = client.post("/invocations", json={"inputs": X.tolist(), "params": {"coverage": 0.6}}).json()
    sets = MODEL.predict_sets(X, coverage=0.6).labels
    assert [tuple(one["set"]) for one in told["predictions"]] == sets


def test_numbers_as_classes_are_texts_and_a_model_without_sets_says_so():
    model = replace(make_model(), facts=replace(MODEL.facts, classes=(3, 1, 2)))
    with serving(model) as client:
        found = client.post("/invocations", json={"inputs": X.tolist()}).json()["predictions"]
        assert set(found) <= {"1", "2", "3"}
        refused = client.post("/v2/models/m/infer", json=asked(parameters={"coverage": 0.9}))
        assert refused.status_code == 400
        assert "hold-out" in refused.json()["error"]


def test_mistakes_are_answered_with_what_to_do_and_what_fails_inside_is_not_told(client, monkeypatch):
    for told in (b"{", b"[1]", json.dumps(asked(X[:, :2])).encode()):
        found = client.post("/v2/models/m/infer", content=told)
        assert found.status_code == 400
        assert found.json()["error"]
    for length in ("many", "-1", "9" * 5000):
        header = {"Inference-Header-Content-Length": length}
        assert client.post("/v2/models/m/infer", json=asked(), headers=header).status_code == 400
    assert client.post("/v2/models/m/infer", json=asked(X[:0])).status_code == 400
    assert client.get("/v2/models/m/infer").status_code == 405

    async def broken(*_):
        raise RuntimeError("a patient's name")

    monkeypatch.setattr(serve_app, "_outputs", broken)
    found = client.post("/v2/models/m/infer", json=asked())
    assert found.status_code == 500
    assert "RuntimeError" in found.text
    assert "patient" not in found.text


def test_requests_have_limits(monkeypatch):
    with serving(limits=Limits(megabytes=0.001, inputs=3, seconds=0.2)) as client:
        assert client.post("/v2/models/m/infer", json=asked()).status_code == 413
        large = client.post("/v2/models/m/infer", content=b" " * 2000)
        assert large.status_code == 413
        packed = client.post("/v2/models/m/infer", content=b"", headers={"Content-Encoding": "gzip"})
        assert packed.status_code == 415
        monkeypatch.setattr(serve_app, "_scored", lambda *_: time.sleep(0.5))
    with serving(limits=Limits(seconds=0.2)) as client:
        assert client.post("/v2/models/m/infer", json=asked()).status_code == 504


async def status_of(application, body, *, ends):
    """The status of a request whose body may never end."""

    async def receive():
        if parts:
            return {"type": "http.request", "body": parts.pop(), "more_body": not ends}
        await asyncio.sleep(60)

    async def send(message):
        sent.append(message)

    sent, parts = [], [body]
    scope = {"type": "http", "method": "POST", "path": "/invocations", "headers": [], "query_string": b""}
    scope |= {"http_version": "1.1", "scheme": "http", "server": ("x", 1), "client": None}
    await application(scope, receive, send)
    return sent[0]["status"]


def test_a_body_that_does_not_arrive_is_not_waited_for():
    application = make_app(MODEL, name="m", digest="ab", limits=Limits(seconds=0.05))
    assert asyncio.run(status_of(application, b"", ends=False)) == 408


def test_a_body_that_is_said_to_be_too_large_is_not_read(client):
    header = {"Content-Length": str(2**60)}
    assert client.post("/invocations", content=b"{}", headers=header).status_code == 413


def test_bodies_together_have_a_limit_and_what_ends_gives_its_room_back(monkeypatch):
    monkeypatch.setattr(serve_app, "_BODIES", 1)
    limits = Limits(megabytes=0.001, seconds=0.1)
    application = make_app(MODEL, name="m", digest="ab", limits=limits)

    async def steps():
        first = asyncio.create_task(status_of(application, b" " * 600, ends=False))
        await asyncio.sleep(0.02)
        second = await status_of(application, b" " * 600, ends=True)
        return await first, second, await status_of(application, b" " * 600, ends=True)

    assert asyncio.run(steps()) == (408, 503, 400)


def test_many_pictures_are_left_when_nobody_waits(monkeypatch):
    asked = []
    monkeypatch.setattr(type(MODEL), "scores", lambda _, items, **__: asked.append(items) or np.ones((64, 3)))
    words = ["a"] * 640
    with pytest.raises(TimeoutError):
        serve_app._scored(MODEL, Limits(), words, lambda: len(asked) < 2)
    assert len(asked) == 2
    assert serve_app._scored(MODEL, Limits(), words, lambda: True).shape == (640, 3)


def test_a_token_is_asked_for_but_not_about_health():
    body = {"inputs": X.tolist()}
    with serving(token="secret-secret-secret") as client:
        assert client.get("/v2/health/live").status_code == 200
        for headers in ({}, {"Authorization": "Bearer other"}, {"Authorization": "secret-secret-secret"}):
            assert (
                client.post("/invocations", json={"inputs": X.tolist()}, headers=headers).status_code == 401
            )
            assert client.get("/metrics", headers=headers).status_code == 401
        own = {"Authorization": "Bearer secret-secret-secret"}
        assert client.post("/invocations", json=body, headers=own).status_code == 200


def test_metrics_count_requests_inputs_and_seconds():
    with serving() as client:
        for _ in range(2):
            client.post("/invocations", json={"inputs": X.tolist()})
        client.post("/invocations", json={})
        told = dict(one.rsplit(" ", 1) for one in client.get("/metrics").text.splitlines())
    route = 'dptransfer_requests_total{route="/invocations",'
    requests = {status: told[f'{route}status="{status}"}}'] for status in (200, 400)}
    assert requests == {200: "2", 400: "1"}
    assert (told["dptransfer_inputs_total"], told["dptransfer_batches_total"]) == ("8", "2")
    assert told['dptransfer_request_seconds_bucket{le="+Inf"}'] == "3"
    counts = [int(count) for name, count in told.items() if "_bucket" in name]
    assert counts == sorted(counts)


class Encoder:
    kind = "image"


@pytest.fixture
def pictures(monkeypatch):
    """A model of pictures whose rows are their sizes."""
    seen = []

    def scores(self, items, **_):
        seen.append(items)
        return np.eye(len(CLASSES))[[len(one) % 3 for one in items]]

    monkeypatch.setattr(serve_app, "encoder_behind", lambda *_: Encoder())
    monkeypatch.setattr(type(MODEL), "scores", scores)
    with serving(limits=Limits(megapixels=0.01)) as client:
        yield client, seen


def picture(side):
    content = BytesIO()
    Image.new("RGB", (side, side)).save(content, "PNG")
    return content.getvalue()


def sent(client, *contents):
    parts = b"".join(len(one).to_bytes(4, "little") + one for one in contents)
    tensor = {"name": "image_bytes", "datatype": "BYTES", "shape": [len(contents)]}
    head = json.dumps({"inputs": [{**tensor, "parameters": {"binary_data_size": len(parts)}}]}).encode()
    header = {"Inference-Header-Content-Length": str(len(head))}
    return client.post("/v2/models/m/infer", content=head + parts, headers=header)


def test_pictures_are_taken_and_large_or_damaged_ones_refused_before_they_are_opened(pictures):
    client, seen = pictures
    names = [one["name"] for one in client.get("/v2/models/m").json()["inputs"]]
    assert names == ["rows", "image_bytes", "image"]
    assert sent(client, picture(8), picture(100)).status_code == 200
    assert seen == [[picture(8), picture(100)]]
    for content in (picture(101), b"no picture"):
        assert sent(client, picture(8), content).status_code == 400
    assert len(seen) == 1


def test_an_encoder_that_is_not_here_leaves_rows(monkeypatch):
    def missing(*_):
        raise DataError("not installed")

    monkeypatch.setattr(serve_app, "encoder_behind", missing)
    with serving() as client:
        assert [one["name"] for one in client.get("/v2/models/m").json()["inputs"]] == ["rows"]


@pytest.mark.parametrize("name", ["megabytes", "megapixels", "seconds", "inputs", "waiting"])
def test_limits_are_positive(name):
    with pytest.raises(ArgumentError):
        Limits(**{name: 0})


def test_the_width_is_that_of_the_model(client):
    assert client.get("/v2/models/m").json()["inputs"][0]["shape"] == [-1, DIMENSION]
