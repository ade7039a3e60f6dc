"""A computation that is recorded computes what it did: new answers, other inputs, and what cannot be."""

import pytest
import torch

from dptransfer.exact.cuda import record_graph


def compute(first, second):
    return (first * 2 + second).cumsum(0)


def test_on_a_cpu_it_is_the_function_itself():
    assert record_graph(compute, torch.zeros(3), torch.zeros(3)) is compute


@pytest.mark.gpu
def test_on_a_gpu_every_call_computes_what_the_function_does():
    again = record_graph(compute, torch.zeros(50, device="cuda"), torch.zeros(50, device="cuda"))
    assert again is not compute
    for seed in range(3):
        torch.manual_seed(seed)
        given = torch.randn(2, 50, device="cuda")
        assert torch.equal(again(*given), compute(*given))


@pytest.mark.gpu
def test_an_answer_stays_as_it_is_when_the_next_comes():
    again = record_graph(compute, torch.zeros(50, device="cuda"), torch.zeros(50, device="cuda"))
    ones, nothing = torch.ones(50, device="cuda"), torch.zeros(50, device="cuda")
    first = again(ones, ones)
    again(nothing, nothing)
    assert torch.equal(first, compute(ones, ones))


@pytest.mark.gpu
def test_what_waits_for_the_device_cannot_be_recorded_and_is_left_as_it_is():
    def waiting(first, second):
        return first * float(second.sum().item())

    before = torch.cuda.current_stream()
    again = record_graph(waiting, torch.ones(5, device="cuda"), torch.ones(5, device="cuda"))
    assert again is waiting
    assert torch.cuda.current_stream() == before
    given = torch.arange(10.0, device="cuda").reshape(2, 5)
    assert torch.equal(again(*given), given[0] * 35)
    assert torch.equal(record_graph(compute, *given)(*given), compute(*given))
