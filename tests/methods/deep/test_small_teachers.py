import numpy as np
import torch

from dptransfer.methods.deep.small_teachers import SmallTeachers, public_kernels

from .tiny import coloured

RAW = torch.from_numpy(coloured(6, side=32)[0]).reshape(2, 3, 32, 32, 3)


def moved(model):
    draws = torch.Generator().manual_seed(0)
    return [one.detach() + 0.3 * torch.randn(one.shape, generator=draws) for one in model.start(2)]


def test_each_teacher_is_the_small_network_with_its_own_weights():
    model = SmallTeachers(4)
    weights = moved(model)
    logits = model.logits(weights, RAW)
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
        pictures = (RAW[teacher].permute(0, 3, 1, 2).float() - 127) / 64
        rows = torch.nn.Sequential(*layers)(pictures).mean((2, 3))
        assert torch.allclose(logits[teacher], rows @ own[9] + own[10], rtol=1e-3, atol=1e-4)


def test_pictures_of_any_size_are_squeezed():
    model = SmallTeachers(4)
    large = torch.from_numpy(np.repeat(np.repeat(RAW.numpy(), 2, axis=2), 2, axis=3))
    assert torch.allclose(model.logits(moved(model), large), model.logits(moved(model), RAW), atol=0.3)


def test_the_start_is_public_and_the_same_for_every_teacher():
    first, second = SmallTeachers(4).start(2), SmallTeachers(4).start(1)
    assert all(torch.equal(one[1], other[0]) for one, other in zip(first, second, strict=True))
    assert np.array_equal(first[0][0].detach().numpy(), next(iter(public_kernels((3, 16)))))
