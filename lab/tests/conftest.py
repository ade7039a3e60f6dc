from pathlib import Path

import pytest

from dptransfer_lab.study import parse_study

from .samples import SMALL, write_toy


@pytest.fixture(autouse=True)
def cache(tmp_path_factory, monkeypatch):
    """A cache of this test session's own: decoded arrays and public maps."""
    folder = tmp_path_factory.getbasetemp() / "bench-cache"
    monkeypatch.setenv("DPTRANSFER_CACHE", str(folder))
    return folder


@pytest.fixture
def toy(tmp_path) -> Path:
    write_toy(tmp_path)
    (tmp_path / "small.toml").write_text(SMALL)
    return tmp_path


@pytest.fixture
def small():
    return parse_study(SMALL)
