import math
from copy import deepcopy

import numpy as np
import pytest
import torch

from dptransfer.base.progress import reported_to
from dptransfer.methods.deep import semi_supervised
from dptransfer.methods.deep.network import network_of
from dptransfer.methods.deep.semi_supervised import (
    DECAY,
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


def test_only_a_full_student_changes_its_network_and_then_all_that_rows_depend_on(network):
    assert student(network, "head", steps=2).delta is None
    changed = student(network, "full", steps=2).delta
    assert set(changed.arrays) == {name for name, _ in network.module.named_parameters()}
    assert (changed.kind, changed.base) == ("state", network.identity)


def test_the_head_gives_for_plain_rows_what_the_student_learned(network):
    learner = semi_supervised.Student(network, stripes(20, seed=0)[0], CLASSES)
    with torch.no_grad():
        learner.values.copy_(torch.linspace(-1, 1, len(learner.values)))
        rows = learner.unit_rows(learner.raw(slice(0, 20)))
        inside = (rows - learner.centre) * learner.scale @ learner.weights.T + learner.offset
    found = learner.result()
    assert np.allclose(rows.numpy() @ found.weights.T + found.offset, inside.numpy(), atol=1e-3)
    assert abs(learner.centre.norm().item()) > 0.1


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


def test_how_often_a_run_is_kept_changes_nothing(network, monkeypatch):
    often = student(network, "head", "freematch", steps=12)
    monkeypatch.setattr(semi_supervised, "_KEPT_TIMES", 1)
    once = student(network, "head", "freematch", steps=12)
    assert (often.weights == once.weights).all()


def test_a_student_learns_from_probabilities_as_from_labels(network):
    unsure = student(network, "head", targets=np.full((6, 2), 0.5))
    told = student(network, "head")
    assert np.abs(unsure.weights).max() < 0.2 * np.abs(told.weights).max()
    assert accuracy(network, student(network, "head", targets=1 - np.eye(2)[[0] * 3 + [1] * 3])) < 0.3


def test_without_an_answer_the_student_is_the_public_start(network):
    none = np.zeros(0, dtype=np.int64), np.zeros((0, 3))
    found = train_student(network, stripes(5, 0)[0], *none, Training("freematch", "full", 5, 4))
    assert (found.weights == 0).all()
    assert (found.offset == 0).all()
    assert found.delta is None


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
