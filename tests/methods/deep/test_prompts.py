import numpy as np
import pytest
import torch

from dptransfer.errors import ArgumentError
from dptransfer.methods.deep.network import Network, network_of
from dptransfer.methods.deep.prompts import Prompts

from .tiny import SOURCE, coloured, tiny_classifier

NETWORK = Network(tiny_classifier())
RAW = torch.from_numpy(coloured(4)[0]).reshape(2, 2, 8, 8, 3)


def moved(model):
    """Weights away from their start, another for each of two teachers."""
    draws = torch.Generator().manual_seed(0)
    return [one.detach() + torch.randn(one.shape, generator=draws) for one in model.start(2)]


def seen(model, prompts):
    with torch.no_grad():
        return model.seen(prompts, RAW)


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


def test_without_the_mask_a_prompt_is_added_to_every_pixel():
    model = Prompts(NETWORK, 3, inner=4, mask=False)
    prompts = moved(model)[0]
    shown, blank = seen(model, prompts), seen(model, torch.zeros_like(prompts))
    assert torch.allclose(shown - blank, prompts[:, None].expand_as(shown), atol=1e-6)


@pytest.mark.parametrize("inner", [2, 5, 7])
def test_a_picture_is_squeezed_to_the_inner_square_with_zeros_around_it(inner):
    model = Prompts(NETWORK, 3, inner=inner)
    white = torch.full((1, 1, 8, 8, 3), 255, dtype=torch.uint8)
    shown = model.seen(torch.zeros(1, 3, 8, 8), white)[0, 0]
    assert int((shown != 0).sum()) == 3 * inner * inner
    assert torch.allclose(shown[shown != 0], torch.tensor((255 - 127) / 64))
    low = (8 - inner) // 2
    assert bool((shown[:, low : low + inner, low : low + inner] != 0).all())


def test_the_inner_square_is_192_of_224_parts_unless_it_is_given():
    assert Prompts(Network(tiny_classifier(size=64)), 3).inner == 55
    assert Prompts(NETWORK, 3).inner == 7


def test_a_random_label_map_takes_one_source_class_for_each_and_learns_none():
    model = Prompts(NETWORK, 5, inner=4, label_map="random")
    weights = moved(model)
    assert len(weights) == 1  # the prompt
    source = NETWORK.classify(NETWORK.rows(model.seen(weights[0], RAW).flatten(0, 1))).reshape(2, 2, SOURCE)
    logits = model.logits(weights, RAW)
    taken = [int((source == logits[..., [one]]).all(dim=(0, 1)).nonzero()) for one in range(5)]
    assert len(set(taken)) == 5
    again = Prompts(NETWORK, 5, inner=4, label_map="random").logits(weights, RAW)
    assert torch.equal(again, logits)


@pytest.mark.parametrize("label_map", ["one-layer", "two-layer"])
def test_label_maps_are_affine_layers_of_all_source_logits_each_teachers_own(label_map):
    model = Prompts(NETWORK, 3, inner=4, label_map=label_map)
    weights = moved(model)
    prompts, *layers = weights
    source = NETWORK.classify(NETWORK.rows(model.seen(prompts, RAW).flatten(0, 1))).reshape(2, 2, SOURCE)
    logits = model.logits(weights, RAW)
    for teacher in (0, 1):
        expected = source[teacher] @ layers[0][teacher] + layers[1][teacher]
        if label_map == "two-layer":
            expected = expected.clamp(min=0) @ layers[2][teacher] + layers[3][teacher]
        assert torch.allclose(logits[teacher], expected, rtol=1e-4, atol=1e-4)


def test_gradients_reach_prompts_and_maps_and_never_the_network():
    model = Prompts(NETWORK, 3, inner=4)
    weights = model.start(2)
    for one in torch.autograd.grad(model.logits(weights, RAW).square().sum(), weights):
        assert one.abs().sum() > 0
    assert not any(one.requires_grad for one in NETWORK.module.parameters())


def test_every_teacher_has_the_same_public_start():
    for label_map in ("random", "one-layer", "two-layer"):
        start = Prompts(NETWORK, 3, inner=4, label_map=label_map).start(3)
        again = Prompts(NETWORK, 3, inner=4, label_map=label_map).start(1)
        for one, other in zip(start, again, strict=True):
            assert all(torch.equal(one[teacher], other[0]) for teacher in range(3))


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


def test_frames_of_bytes_are_in_the_units_of_the_network():
    """A prompt is what the network sees, and not bytes: at its start it is the network's zero."""
    shown = seen(Prompts(NETWORK, 3, inner=4), torch.zeros(2, 3, 8, 8))
    assert (shown[..., 0, 0] == 0).all()
    grey = np.full((1, 1, 8, 8, 3), 127, dtype=np.uint8)
    shown = Prompts(NETWORK, 3, inner=4).seen(torch.zeros(1, 3, 8, 8), torch.from_numpy(grey))
    assert shown.abs().max() == 0
