import builtins
import importlib.util

import numpy as np
import pytest

from dptransfer.errors import ArgumentError
from dptransfer.exact import cuda


class OnTheDevice:
    is_cuda = True


def test_the_cpu_is_used_unless_cuda_is_asked_for_or_an_array_is_there(monkeypatch):
    monkeypatch.setattr(cuda, "require_cuda", lambda: None)
    assert not cuda.use_cuda("cpu", np.zeros(3), [1])
    assert cuda.use_cuda("cuda", np.zeros(3))
    assert cuda.use_cuda("cpu", np.zeros(3), OnTheDevice())
    with pytest.raises(ArgumentError, match="device"):
        cuda.use_cuda("abacus")


def test_without_torch_the_message_names_it(monkeypatch):
    real = builtins.__import__

    def without_torch(name, *rest):
        if name == "torch":
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without_torch)
    with pytest.raises(ArgumentError, match="needs torch"):
        cuda.require_cuda()


def test_without_triton_the_message_names_it(monkeypatch):
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ArgumentError, match="needs Triton"):
        cuda.require_cuda()
