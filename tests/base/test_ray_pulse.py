import socket
import time
from types import SimpleNamespace

import pytest

from dptransfer.base import ray_workers as ray_pulse
from dptransfer.base.ray_workers import Pulse
from dptransfer.errors import DPTransferError


def ray(**places):
    """What of Ray is asked where it lives."""
    node = SimpleNamespace(**places) if places else None
    return SimpleNamespace(_private=SimpleNamespace(worker=SimpleNamespace(_global_node=node)))


@pytest.fixture
def quick(monkeypatch):
    monkeypatch.setattr(ray_pulse, "_BETWEEN", 0.0)
    monkeypatch.setattr(ray_pulse, "_PATIENCE", 0.2)


def test_a_node_that_has_ended_is_noticed_at_once(tmp_path):
    place = str(tmp_path / "store")
    with socket.socket(socket.AF_UNIX) as store:
        store.bind(place)
        store.listen()
        pulse = Pulse(ray(plasma_store_socket_name=place, gcs_address=None))
        pulse.require()
        assert not pulse.gone
    with pytest.raises(DPTransferError, match="has ended"):
        pulse.require()
    assert pulse.gone


@pytest.mark.usefixtures("quick")
def test_a_head_that_does_not_answer_for_a_while_is_given_up_and_not_before():
    with socket.create_server(("127.0.0.1", 0)) as head:
        address = f"127.0.0.1:{head.getsockname()[1]}"
        pulse = Pulse(ray(gcs_address=address))
        time.sleep(0.3)
        pulse.require()
    pulse.require()  # it may come back
    time.sleep(0.3)
    with pytest.raises(DPTransferError, match="does not answer"):
        pulse.require()
    assert pulse.gone


def test_a_head_is_not_asked_for_every_task(monkeypatch):
    asked = []
    monkeypatch.setattr(ray_pulse, "_answers", lambda place: asked.append(place) is None)
    pulse = Pulse(ray(gcs_address="head:1"))
    for _ in range(3):
        pulse.require()
    assert asked == []
    monkeypatch.setattr(ray_pulse, "_BETWEEN", -1.0)
    pulse.require()
    assert asked == [("head", 1)]


@pytest.mark.parametrize("other", [ray(), SimpleNamespace(), SimpleNamespace(_private=None)])
def test_where_ray_runs_elsewhere_there_is_nothing_to_be_looked_at(other):
    Pulse(other).require()
