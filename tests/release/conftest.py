import os

import pytest


@pytest.fixture(autouse=True)
def _no_waiting_for_the_disk(monkeypatch):
    """Flushing takes most of a test's time; what is flushed is tested in test_bundle."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
