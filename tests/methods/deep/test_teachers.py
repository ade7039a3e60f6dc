from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from contracts.rows import steady
from dptransfer.base.progress import reported_to
from dptransfer.errors import ArgumentError
from dptransfer.methods.deep import teachers as module
from dptransfer.methods.deep.network import Network, network_of
from dptransfer.methods.deep.teachers import (
    Course,
    Prompts,
    SmallTeachers,
    ballots_of,
    visits,
)
from dptransfer.methods.votes.pate import ridge
from dptransfer.queries.votes import ABSTAINS

from .tiny import SOURCE, coloured, tiny_classifier

COURSE = Course(steps=6, batch=4, rate=0.05, decay=0.7, together=3, looks=4)
KINDS = {
    "prompts": lambda device="cpu": Prompts(
        Network(tiny_classifier(device=device)), 3, inner=4, label_map="one-layer"
    ),
    "label maps": lambda device="cpu": Prompts(Network(tiny_classifier(device=device)), 3, inner=4),
    "from scratch": lambda: SmallTeachers(3),
}
LEARNING = {
    "prompts": {"steps": 80, "rate": 0.1},
    "label maps": {"steps": 0},
    "from scratch": {"steps": 25, "rate": 0.01},
}
PIXELS, LABELS = coloured(40)
QUESTIONS, TRUTH = coloured(10, seed=1)
PARTS = [np.arange(12), np.arange(12, 15), np.arange(0), np.arange(15, 30), np.arange(30, 40)]


def always(what, compute):
    return compute()


def ballots(model, parts=PARTS, course=COURSE, pixels=PIXELS, labels=LABELS, kept=always):
    return ballots_of(model, course, pixels, labels, parts, QUESTIONS, kept)


def learned(model, parts=PARTS, course=COURSE, pixels=PIXELS, labels=LABELS):
    """The weights of the first group."""
    lessons = module._lessons(course, pixels, labels, parts[: course.together])
    return module.teach(model, course, lessons, lambda done: None)


@pytest.mark.parametrize("kind", KINDS)
def test_teachers_learn_and_say_what_they_have_learned(kind):
    course = replace(COURSE, **LEARNING[kind])
    cast = ballots(KINDS[kind](), course=course)
    assert cast.shape == (5, 10)
    assert (cast[0] == TRUTH).mean() > 0.8
    assert (cast[2] == ABSTAINS).all()  # it has no pictures
    if kind != "label maps":
        unlearned = ballots(KINDS[kind](), course=replace(course, steps=1, rate=1e-9))
        assert (unlearned[0] == TRUTH).mean() < 0.8


@pytest.mark.parametrize("place", range(3))
@pytest.mark.parametrize("kind", KINDS)
def test_what_a_teacher_learns_does_not_depend_on_its_neighbours_bit_for_bit(kind, place):
    own, others = neighbourly(KINDS[kind](), place)
    assert all(torch.equal(*pair) for pair in own)
    assert not all(torch.equal(*pair) for pair in others)


def neighbourly(model, place):
    """(before, after) of a teacher's weights, and of the next one's: all pictures of neighbours change."""
    changed, names = 255 - PIXELS, 2 - LABELS
    changed[PARTS[0]], names[PARTS[0]] = PIXELS[PARTS[0]], LABELS[PARTS[0]]
    learnt = []
    for others, pixels, labels in (
        ([PARTS[1], PARTS[4]], PIXELS, LABELS),
        ([np.arange(15, 40), np.arange(12, 14)], changed, names),
    ):
        parts = [*others[:place], PARTS[0], *others[place:]]
        learnt.append(learned(model, parts, pixels=pixels, labels=labels))
    return [[(one[at], two[at]) for one, two in zip(*learnt, strict=True)] for at in (place, (place + 1) % 3)]


@pytest.mark.parametrize("kind", KINDS)
def test_many_teachers_in_one_pass_learn_what_each_would_learn_alone(kind):
    """Up to rounding, which depends on the shape of a pass: a thousandth of what sets teachers apart."""
    model, alone = KINDS[kind](), replace(COURSE, together=1)
    together = learned(model)
    for number in (0, 1):
        by_itself = learned(model, [PARTS[number]], alone)
        for one, other in zip(together, by_itself, strict=True):
            apart = (one[0] - one[1]).abs().mean()
            assert (one[number] - other[0]).abs().mean() <= 1e-3 * apart


def test_a_step_is_adams_on_the_mean_loss_of_the_teachers_own_batch():
    model = KINDS["prompts"]()
    course = Course(steps=1, batch=4, rate=0.1, decay=1.0, together=2)
    found = learned(model, [np.arange(4), np.arange(4, 8)], course)
    weights, order = model.start(1), visits(4, 4)
    raw = torch.from_numpy(PIXELS[order])[None]
    loss = torch.nn.functional.cross_entropy(model.logits(weights, raw)[0], torch.from_numpy(LABELS[order]))
    gradients = torch.autograd.grad(loss, weights)
    for start, gradient, one in zip(weights, gradients, found, strict=True):
        step = 0.1 * gradient / (gradient.abs() + 1e-8)  # Adam's first
        assert torch.allclose(one[0], (start - step)[0], atol=1e-3)


def small_pictures(drawn):
    """Pictures that are one colour, so that few bytes tell them."""
    raw = np.array(drawn, dtype=np.uint8).reshape(-1, 1, 1, 3)
    return np.broadcast_to(raw, (len(raw), 8, 8, 3)).copy()


@settings(steady, max_examples=25)
@given(st.data())
def test_one_unit_more_changes_one_ballot(data):
    """A unit is a row, or a person with up to forty; all its rows are with one teacher."""
    model, steps = data.draw(st.sampled_from([(_MODEL, 2), (_SOLVED, 0), (_SOLVED, 2)]))
    course = Course(steps=steps, batch=2, rate=0.05, decay=0.7, together=2, looks=3)
    count = data.draw(st.integers(0, 8))
    colours = st.tuples(*[st.integers(0, 255)] * 3)
    pixels = small_pictures(data.draw(st.lists(colours, min_size=count, max_size=count)))
    labels = np.array(data.draw(st.lists(st.integers(0, 2), min_size=count, max_size=count)), dtype=np.int64)
    teacher = np.array(data.draw(st.lists(st.integers(0, 3), min_size=count, max_size=count)), dtype=np.int64)
    rows, own = data.draw(st.sampled_from([1, 40])), data.draw(st.integers(0, 3))
    place = data.draw(st.integers(0, count))
    more = np.full((rows, 8, 8, 3), data.draw(st.integers(0, 255)), dtype=np.uint8)
    whose = np.concatenate([teacher[:place], np.full(rows, own), teacher[place:]])
    larger = np.concatenate([pixels[:place], more, pixels[place:]])
    named = np.concatenate([labels[:place], np.full(rows, 1), labels[place:]])

    def cast(x, y, teachers):
        parts = [np.flatnonzero(teachers == one) for one in range(4)]
        return ballots_of(model, course, x, y, parts, QUESTIONS[:3], always)

    changed = (cast(pixels, labels, teacher) != cast(larger, named, whose)).any(axis=1)
    assert set(np.flatnonzero(changed)) <= {own}


_MODEL, _SOLVED = KINDS["prompts"](), KINDS["label maps"]()


@pytest.mark.parametrize("steps", [0, 6])
def test_a_solved_label_map_is_the_ridge_regression_on_the_teachers_own_source_logits(steps):
    model = KINDS["label maps"]()
    prompts, layer, offset = learned(model, course=replace(COURSE, steps=steps))
    assert bool(prompts.any()) == bool(steps)
    for teacher in (0, 1):
        own = PARTS[teacher]
        with torch.no_grad():
            seen = model.source(prompts[[teacher]], torch.from_numpy(PIXELS[own])[None])[0]
        assert torch.allclose(seen.norm(dim=1), torch.ones(len(own)))
        solved = ridge(seen.double().numpy(), LABELS[own])
        assert np.allclose(layer[teacher].detach(), 10 * solved, atol=1e-3)
        assert not offset[teacher].any()


def test_no_teacher_votes_for_a_class_that_it_has_not_seen():
    parts = [np.flatnonzero(LABELS != 1)[:6], np.flatnonzero(LABELS == 2)[:3]]
    cast = ballots(KINDS["label maps"](), parts, course=replace(COURSE, steps=0))
    assert set(cast[0]) == {0, 2}
    assert set(cast[1]) == {2}


def test_teachers_without_prompts_say_what_they_would_if_each_heard_the_questions_itself():
    model, course = KINDS["label maps"](), replace(COURSE, steps=0)
    weights = learned(model, course=course)
    asked = torch.from_numpy(QUESTIONS).expand(3, *QUESTIONS.shape)
    assert (ballots(model, course=course)[:2] == model.logits(weights, asked).argmax(2).numpy()[:2]).all()


def test_a_schedule_visits_all_of_a_teachers_pictures_equally_often_and_depends_on_their_number_alone():
    assert np.bincount(visits(5, 15)).tolist() == [3] * 5
    assert np.bincount(visits(7, 3), minlength=7).max() == 1
    assert visits(1, 4).tolist() == [0] * 4
    assert (visits(9, 20) == visits(9, 20)).all()


def test_work_and_what_is_told_of_it_depend_on_public_numbers_alone():
    heard = []
    for parts in (PARTS, [np.arange(40), *[np.arange(0)] * 4]):
        with reported_to(lambda *said: heard.append(said)):
            ballots(KINDS["prompts"](), parts)
    half = len(heard) // 2
    assert heard[:half] == heard[half:]
    assert heard[0] == (1, 2 * (6 + 3), "passes of the teachers")
    assert heard[half - 1][:2] == (18, 18)


@pytest.mark.gpu
def test_on_a_gpu_a_teacher_does_not_depend_on_its_neighbours_and_votes_as_on_a_cpu():
    kind = "prompts"
    model = KINDS[kind]("cuda")
    for place in range(3):
        own, others = neighbourly(model, place)
        assert all(torch.equal(*pair) for pair in own)
        assert not all(torch.equal(*pair) for pair in others)
    course = replace(COURSE, **LEARNING[kind])
    there, here = ballots(model, course=course), ballots(KINDS[kind](), course=course)
    assert (there == here).mean() > 0.9


NETWORK = Network(tiny_classifier())
RAW = torch.from_numpy(coloured(4)[0]).reshape(2, 2, 8, 8, 3)


def moved(model, far=1.0):
    """Weights away from their start, another for each of two teachers."""
    draws = torch.Generator().manual_seed(0)
    return [one.detach() + far * torch.randn(one.shape, generator=draws) for one in model.start(2)]


def seen(model, prompts):
    with torch.no_grad():
        return model.with_prompts(prompts, RAW)


def source_logits(model, prompts):
    """What the public head makes of pictures with these prompts."""
    rows = NETWORK.rows(model.with_prompts(prompts, RAW).flatten(0, 1))
    return NETWORK.classify(rows).reshape(2, 2, SOURCE)


def test_with_the_mask_a_prompt_is_a_frame_and_the_picture_inside_is_as_it_is():
    model = Prompts(NETWORK, 3, inner=4)
    prompts = moved(model)[0]
    shown, blank = seen(model, prompts), seen(model, torch.zeros_like(prompts))
    inside = (slice(None),) * 3 + (slice(2, 6), slice(2, 6))
    assert torch.equal(shown[inside], blank[inside])
    frame = shown - blank
    assert torch.equal(frame[:, 0], frame[:, 1])  # the same around every picture of a teacher
    assert not torch.equal(frame[0], frame[1])
    frame[inside] = prompts[0, :, 2:6, 2:6]
    assert torch.equal(frame[0, 0], prompts[0])


@pytest.mark.parametrize("label_map", ["one-layer", "two-layer"])
def test_label_maps_are_affine_layers_of_all_source_logits_each_teachers_own(label_map):
    model = Prompts(NETWORK, 3, inner=4, label_map=label_map)
    weights = moved(model)
    prompts, *layers = weights
    source = source_logits(model, prompts)
    logits = model.logits(weights, RAW)
    for teacher in (0, 1):
        expected = source[teacher] @ layers[0][teacher] + layers[1][teacher]
        if label_map == "two-layer":
            expected = expected.clamp(min=0) @ layers[2][teacher] + layers[3][teacher]
        assert torch.allclose(logits[teacher], expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("network", "settings", "words"),
    [
        (network_of("small-cnn", size=8), {}, "'small-cnn' brings none"),
        (NETWORK, {"inner": 8}, "between 1 and 7 .* got 8"),
        (NETWORK, {"classes": 8, "label_map": "random"}, "has 7 and 8 are declared"),
    ],
)
def test_what_cannot_be_prompted_is_refused_in_words(network, settings, words):
    with pytest.raises(ArgumentError, match=words):
        Prompts(network, **{"classes": 3} | settings)


LARGER = torch.from_numpy(coloured(6, side=32)[0]).reshape(2, 3, 32, 32, 3)


def test_each_teacher_is_the_small_network_with_its_own_weights():
    model = SmallTeachers(4)
    weights = moved(model, 0.3)
    logits = model.logits(weights, LARGER)
    for teacher in (0, 1):
        own = [one[teacher] for one in weights]
        layers = []
        for number, (kernels, scale, shift) in enumerate(zip(*[iter(own[:9])] * 3, strict=True)):
            convolution = torch.nn.Conv2d(kernels.shape[1], len(kernels), 3, padding=1, bias=False)
            convolution.weight.data = kernels
            norm = torch.nn.GroupNorm(8, len(kernels))
            norm.weight.data, norm.bias.data = scale, shift
            layers += [torch.nn.AvgPool2d(2)] if number else []
            layers += [convolution, norm, torch.nn.ReLU()]
        pictures = (LARGER[teacher].permute(0, 3, 1, 2).float() - 127) / 64
        rows = torch.nn.Sequential(*layers)(pictures).mean((2, 3))
        assert torch.allclose(logits[teacher], rows @ own[9] + own[10], rtol=1e-3, atol=1e-4)
