import math
from copy import deepcopy

import numpy as np
import pytest
import torch

from dptransfer.base.progress import reported_to
from dptransfer.methods.deep import semi_supervised
from dptransfer.methods.deep.network import network_of
from dptransfer.methods.deep.semi_supervised import (
    FAIRNESS,
    Training,
    first_averages,
    fixmatch,
    freematch,
    train_student,
)

SIDE, CLASSES = 8, 2


def stripes(count, seed):
    """Stripes that lie or stand, of any two colours and with noise."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, CLASSES, count)
    wave = (np.arange(SIDE) + rng.integers(0, 4, count)[:, None]) // 2 % 2
    lying = np.broadcast_to(wave[:, :, None], (count, SIDE, SIDE))
    pattern = np.where(labels[:, None, None] == 0, lying, lying.transpose(0, 2, 1))[..., None]
    dark, bright = rng.integers(0, 100, (count, 1, 1, 3)), rng.integers(150, 256, (count, 1, 1, 3))
    noisy = np.where(pattern, bright, dark) + rng.normal(0, 40, (count, SIDE, SIDE, 3))
    return noisy.clip(0, 255).astype(np.uint8), labels


@pytest.fixture(scope="module")
def network():
    return network_of("small-cnn", size=SIDE)


def student(network, trains="full", rule="fixmatch", steps=40, labelled=3, **given):
    pixels, labels = stripes(160, seed=0)
    answered = np.concatenate([np.flatnonzero(labels == one)[:labelled] for one in range(CLASSES)])
    wanted = given.pop("targets", np.eye(CLASSES)[labels[answered]])
    return train_student(network, pixels, answered, wanted, Training(rule, trains, steps, 8), **given)


def accuracy(network, found):
    pixels, labels = stripes(400, seed=1)
    encoder = network.encoder if found.delta is None else network.encoder.with_delta(found.delta)
    with torch.no_grad():
        rows = torch.nn.functional.normalize(encoder.rows_of(network.inputs(pixels))).double().numpy()
    return float(((rows @ found.weights.T + found.offset).argmax(1) == labels).mean())


def nothing_from_the_unlabelled(weak, strong, averages):
    return 0 * strong.sum(), averages


@pytest.mark.parametrize(("rule", "trains", "steps"), [("freematch", "head", 100), ("fixmatch", "full", 40)])
def test_unlabelled_pictures_make_a_better_student(network, monkeypatch, rule, trains, steps):
    found = accuracy(network, student(network, trains, rule, steps))
    monkeypatch.setitem(semi_supervised.RULES, rule, nothing_from_the_unlabelled)
    alone = accuracy(network, student(network, trains, rule, steps))
    assert 1 - found < 0.6 * (1 - alone)
    assert alone < 0.99


@pytest.mark.parametrize("trains", ["head", "full"])
def test_the_same_answers_give_the_same_student_and_leave_the_network_as_it_was(network, trains):
    before = deepcopy(network.module.state_dict())
    first, second = (student(network, trains, "freematch", steps=6) for _ in range(2))
    assert (first.weights == second.weights).all()
    assert (first.offset == second.offset).all()
    if trains == "full":
        assert first.delta.identity == second.delta.identity
    assert all(tensor.equal(before[name]) for name, tensor in network.module.state_dict().items())
    assert not any(one.requires_grad for one in network.module.parameters())


def test_batch_normalisation_keeps_its_averages_and_a_public_head_stays_as_it_is():
    network = network_of("efficientnet-lite0", size=32)
    pixels = np.random.default_rng(0).integers(0, 256, (4, 32, 32, 3), dtype=np.uint8)
    found = train_student(network, pixels, np.arange(2), np.eye(2), Training("fixmatch", "full", 1, 1))
    assert not any("running" in name or "_fc" in name for name in found.delta.arrays)
    assert any("_bn1.weight" in name for name in found.delta.arrays)


def test_a_run_that_goes_on_ends_where_one_that_was_not_stopped_does(network):
    disk, calls = {}, []

    def kept(what, compute):
        if what not in disk:
            calls.append(what)
            if len(calls) == 13:  # ten for the head
                raise KeyboardInterrupt
            disk[what] = compute()
        return disk[what]

    with pytest.raises(KeyboardInterrupt):
        student(network, "full", "freematch", steps=12, kept=kept)
    told = []
    with reported_to(lambda done, of, what: told.append((what, done))):
        again = student(network, "full", "freematch", steps=12, kept=kept)
    whole = student(network, "full", "freematch", steps=12)
    assert (again.weights == whole.weights).all()
    assert again.delta.identity == whole.delta.identity
    assert len(calls) == 21  # the one that was stopped is done again, and no other
    assert ("step of the student's network", 1) not in told
    assert told[-1] == ("step of the student's network", 12)


@pytest.mark.gpu
@pytest.mark.parametrize("trains", ["head", "full"])
def test_on_a_gpu_the_student_is_the_same_twice_and_as_good_as_on_the_cpu(network, trains):
    there = network_of("small-cnn", size=SIDE, device="cuda")
    first, second = (student(there, trains, "freematch", steps=40) for _ in range(2))
    assert (first.weights == second.weights).all()
    if trains == "full":
        assert first.delta.identity == second.delta.identity
    here = student(network, trains, "freematch", steps=40)
    assert abs(accuracy(network, first) - accuracy(network, here)) < 0.05


def logits(*probabilities):
    return torch.tensor(probabilities).log().requires_grad_()


def test_fixmatch_learns_sure_guesses_and_counts_the_others_as_zeros():
    weak = logits([0.97, 0.03], [0.2, 0.8], [0.04, 0.96])
    strong = logits([0.5, 0.5], [0.9, 0.1], [0.75, 0.25])
    loss, _ = fixmatch(weak, strong, first_averages(2))
    assert loss.item() == pytest.approx((math.log(2) + math.log(4)) / 3)


@pytest.mark.parametrize("rule", [fixmatch, freematch])
def test_guesses_are_labels_and_no_gradient_flows_through_them(rule):
    weak, strong = logits([0.98, 0.02], [0.01, 0.99]), logits([0.6, 0.4], [0.7, 0.3])
    loss, _ = rule(weak, strong, first_averages(2))
    loss.backward()
    assert weak.grad is None
    # A step against the gradient makes the guessed classes likelier.
    assert strong.grad[0, 0] < 0 < strong.grad[0, 1]
    assert strong.grad[1, 1] < 0 < strong.grad[1, 0]


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


@pytest.mark.parametrize("rule", [fixmatch, freematch])
def test_where_no_guess_is_sure_nothing_is_learned(rule):
    averages = torch.tensor([0.9, 0.5, 0.5, 0.5, 0.5])
    weak, strong = logits([0.5, 0.5], [0.4, 0.6]), logits([0.8, 0.2], [0.4, 0.6])
    loss, _ = rule(weak, strong, averages)
    loss.backward()
    assert loss.item() == 0
    assert strong.grad.abs().max() == 0
