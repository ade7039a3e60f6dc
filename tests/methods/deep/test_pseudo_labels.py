import math

import pytest
import torch

from dptransfer.methods.deep.semi_supervised import DECAY, FAIRNESS, first_averages, fixmatch, freematch


def logits(*probabilities):
    return torch.tensor(probabilities).log().requires_grad_()


def test_fixmatch_learns_sure_guesses_and_counts_the_others_as_zeros():
    weak = logits([0.97, 0.03], [0.2, 0.8], [0.04, 0.96])
    strong = logits([0.5, 0.5], [0.9, 0.1], [0.75, 0.25])
    loss, _ = fixmatch(weak, strong, first_averages(2))
    assert loss.item() == pytest.approx((math.log(2) + math.log(4)) / 3)


def test_a_guess_at_the_threshold_is_sure():
    weak = torch.tensor([[19.0, 1.0]]).log()  # 0.95
    loss, _ = fixmatch(weak + 1e-3 * torch.tensor([1.0, 0]), logits([0.5, 0.5]), None)
    assert loss.item() == pytest.approx(math.log(2))
    loss, _ = fixmatch(weak - 1e-3 * torch.tensor([1.0, 0]), logits([0.5, 0.5]), None)
    assert loss.item() == 0


@pytest.mark.parametrize("rule", [fixmatch, freematch])
def test_guesses_are_labels_and_no_gradient_flows_through_them(rule):
    weak, strong = logits([0.98, 0.02], [0.01, 0.99]), logits([0.6, 0.4], [0.7, 0.3])
    loss, _ = rule(weak, strong, first_averages(2))
    loss.backward()
    assert weak.grad is None
    # A step against the gradient makes the guessed classes likelier.
    assert strong.grad[0, 0] < 0 < strong.grad[0, 1]
    assert strong.grad[1, 1] < 0 < strong.grad[1, 0]


def test_freematch_follows_how_sure_the_student_is_of_which_classes():
    averages = torch.tensor([0.6, 0.7, 0.3, 0.5, 0.5])
    weak = logits([0.9, 0.1], [0.7, 0.3], [0.4, 0.6], [0.8, 0.2])
    _, found = freematch(weak, logits(*[[0.5, 0.5]] * 4), averages)
    seen = [0.75, 0.7, 0.3, 0.75, 0.25]  # mean of the largest, of each class, and shares of the favourites
    wanted = [DECAY * old + (1 - DECAY) * new for old, new in zip(averages.tolist(), seen, strict=True)]
    assert found.tolist() == pytest.approx(wanted)


def test_freematch_asks_less_of_a_class_that_the_student_seldom_thinks_of():
    # The threshold is 0.8 for the first class, and 0.8 · 0.25 / 0.75, which every guess passes, for the next.
    averages = torch.tensor([0.8, 0.75, 0.25, 0.5, 0.5])
    strong = logits([0.5, 0.5], [0.5, 0.5])
    first, second = (
        freematch(logits(guess, guess), strong, averages)[0].item() for guess in ([0.75, 0.25], [0.45, 0.55])
    )
    assert first == 0  # unsure, so that nothing is learned
    assert second == pytest.approx(math.log(2), abs=1e-3)  # fairness of equals is log 1


def test_fairness_is_minus_a_cross_entropy_as_published():
    # Thought of 3 : 1 and named 1 : 1 gives a = (3/4, 1/4). The strong views name each class once, their
    # mean is (0.6, 0.4), so that b is that, too.
    averages = torch.tensor([0.5, 0.75, 0.25, 0.5, 0.5])
    weak, strong = logits([0.9, 0.1], [0.1, 0.9]), logits([0.8, 0.2], [0.4, 0.6])
    loss, found = freematch(weak, strong, averages)
    learned = -(math.log(0.8) + math.log(0.6)) / 2
    _, p, q, h, g = found.tolist()
    a = p / h / (p / h + q / g)
    fairness = a * math.log(0.6) + (1 - a) * math.log(0.4)
    assert a == pytest.approx(0.75, abs=1e-3)
    assert loss.item() == pytest.approx(learned + FAIRNESS * fairness)


def test_a_class_that_no_strong_view_is_taken_for_has_no_part_in_fairness():
    weak, strong = logits([0.9, 0.05, 0.05], [0.9, 0.05, 0.05]), logits([0.8, 0.1, 0.1], [0.6, 0.2, 0.2])
    loss, _ = freematch(weak, strong, first_averages(3))
    assert loss.item() == pytest.approx(-(math.log(0.8) + math.log(0.6)) / 2)  # one class: log 1


@pytest.mark.parametrize("rule", [fixmatch, freematch])
def test_where_no_guess_is_sure_nothing_is_learned(rule):
    averages = torch.tensor([0.9, 0.5, 0.5, 0.5, 0.5])
    weak, strong = logits([0.5, 0.5], [0.4, 0.6]), logits([0.8, 0.2], [0.4, 0.6])
    loss, _ = rule(weak, strong, averages)
    loss.backward()
    assert loss.item() == 0
    assert strong.grad.abs().max() == 0
