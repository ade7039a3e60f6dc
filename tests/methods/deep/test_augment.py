import numpy as np
import pytest
import torch
from PIL import Image, ImageEnhance, ImageOps

from dptransfer.methods.deep import augment
from dptransfer.methods.deep.augment import CHANGES, views_of

SIDE = 16


def pictures(count=6, side=SIDE):
    """Smooth pictures with a little noise."""
    rng = np.random.default_rng(0)
    coarse = rng.integers(30, 220, (count, 4, 4, 3), dtype=np.uint8)
    large = [
        np.asarray(Image.fromarray(one).resize((side, side), Image.Resampling.BICUBIC)) for one in coarse
    ]
    return torch.from_numpy(np.stack(large) + rng.integers(0, 20, (count, side, side, 3), dtype=np.uint8))


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def changed(name, seen, strengths):
    """One change, as a strong view makes it."""
    made = CHANGES[name](seen.permute(0, 3, 1, 2).float(), torch.as_tensor(strengths))
    return made.clamp(0, 255).round().to(torch.uint8).permute(0, 2, 3, 1)


@pytest.mark.parametrize("view", [augment.weak, augment.strong])
def test_a_view_has_the_pictures_shape_and_type_and_is_the_same_for_the_same_seed(view):
    plain = pictures()
    seen = view(plain, seeded())
    assert (seen.shape, seen.dtype) == (plain.shape, torch.uint8)
    assert seen.equal(view(plain, seeded()))
    assert not seen.equal(view(plain, seeded(1)))
    assert plain.equal(pictures())  # it was not changed in place


def test_a_weak_view_is_a_shifted_picture_or_its_mirror_image_and_all_of_them_come_up():
    one = pictures(1)[0].numpy()
    most = SIDE // 8
    padded = np.pad(one, ((most, most), (most, most), (0, 0)), mode="reflect")
    shifted = [padded[i : i + SIDE, j : j + SIDE] for i in range(2 * most + 1) for j in range(2 * most + 1)]
    known = {view.tobytes() for view in (*shifted, *(view[:, ::-1] for view in shifted))}
    views = augment.weak(torch.from_numpy(np.stack([one] * 1000)), seeded()).numpy()
    assert {view.tobytes() for view in views} == known
    assert len(known) == 50


def test_every_change_comes_up_and_only_those_without_a_strength_act_at_strength_zero():
    plain = pictures()
    for name in CHANGES:
        unmoved = changed(name, plain, [0.0] * 6).equal(plain)
        assert unmoved is (name != "equalise")
        assert changed(name, plain, [0.9, -0.9] * 3).equal(plain) is (name == "same")


@pytest.mark.parametrize("name", CHANGES)
def test_what_a_change_does_to_a_picture_does_not_depend_on_the_others(name):
    plain, strengths = pictures(), torch.linspace(-1, 1, 6)
    together = changed(name, plain, strengths)
    for number in range(6):
        place = slice(number, number + 1)
        assert together[place].equal(changed(name, plain[place], strengths[place]))


@pytest.mark.parametrize(
    ("name", "enhanced"),
    [
        ("brightness", ImageEnhance.Brightness),
        ("contrast", ImageEnhance.Contrast),
        ("saturation", ImageEnhance.Color),
        ("sharpness", ImageEnhance.Sharpness),
    ],
)
@pytest.mark.parametrize("strength", [-0.5, 0.4])
def test_colours_are_what_pillow_makes_of_them(name, enhanced, strength):
    plain = pictures()
    factor = 1 + 0.95 * strength
    inner = slice(1, -1)  # at the edge Pillow smooths nothing
    for one, found in zip(plain, changed(name, plain, [strength] * 6), strict=True):
        wanted = np.asarray(enhanced(Image.fromarray(one.numpy())).enhance(factor)).astype(int)
        assert np.abs(found.numpy()[inner, inner] - wanted[inner, inner]).max() <= 2


def test_posterised_and_solarised_pictures_are_those_of_pillow():
    plain = pictures()
    for one, posterised, solarised in zip(
        plain, changed("posterise", plain, [1.0] * 6), changed("solarise", plain, [0.5] * 6), strict=True
    ):
        picture = Image.fromarray(one.numpy())
        assert (posterised.numpy() == np.asarray(ImageOps.posterize(picture, 4))).all()
        assert (solarised.numpy() == np.asarray(ImageOps.solarize(picture, 128))).all()


@pytest.mark.gpu
def test_views_on_a_gpu_are_those_on_the_cpu_but_for_rounding():
    plain = pictures(64)
    for view in (augment.weak, augment.strong):
        here, there = view(plain, seeded()), view(plain.cuda(), seeded()).cpu()
        assert ((here.int() - there.int()).abs() <= 1).float().mean() > 0.999


def noise():
    rng = np.random.default_rng(0)
    return torch.from_numpy(rng.integers(0, 256, (2, 32, 32, 3), dtype=np.uint8))


def test_all_views_differ_and_each_is_of_its_own_picture():
    seen = noise()
    every = views_of(seen, len(augment.VIEWS))
    assert every.shape == views_of(seen, len(augment.VIEWS) + 1).shape == (2 * len(augment.VIEWS), 32, 32, 3)
    assert every.dtype == torch.uint8
    assert len({one.numpy().tobytes() for one in every}) == 2 * len(augment.VIEWS)
    alone = views_of(seen[1:], len(augment.VIEWS))
    assert torch.equal(every[len(augment.VIEWS) :], alone)
