import gzip
import struct

import numpy as np
import pytest

from dptransfer.errors import DataError
from dptransfer_lab.demo.fashion import CLASSES, fashion_sets, read_idx


def write_idx(path, array):
    header = struct.pack(f">BBBB{array.ndim}I", 0, 0, 8, array.ndim, *array.shape)
    path.write_bytes(gzip.compress(header + array.astype(np.uint8).tobytes()))


@pytest.fixture
def folder(tmp_path):
    rng = np.random.default_rng(0)
    for part, count in (("train", 900), ("t10k", 100)):
        write_idx(tmp_path / f"{part}-images-idx3-ubyte.gz", rng.integers(0, 256, (count, 5, 4)))
        write_idx(tmp_path / f"{part}-labels-idx1-ubyte.gz", np.arange(count) % 10)
    return tmp_path


def test_a_missing_package_is_named_with_the_command_that_installs_it(tmp_path):
    with pytest.raises(DataError, match="apt-get install"):
        fashion_sets(tmp_path / "nowhere")


@pytest.mark.parametrize(
    ("case", "content"),
    [
        ("not gzip", b"not gzip"),
        ("floats", gzip.compress(b"\0\0\x0d\x01\0\0\0\x01abcd")),
        ("cut short", gzip.compress(b"\0\0\x08\x01\0\0\0\x03abc")[:-9]),
    ],
    # Named, because the bytes hold the time: two processes would give one case two names.
    ids=lambda one: one if isinstance(one, str) else "",
)
def test_a_damaged_file_is_refused(tmp_path, case, content):
    (tmp_path / "bad.gz").write_bytes(content)
    with pytest.raises(DataError, match=r"bad\.gz"):
        read_idx(tmp_path / "bad.gz")


def test_labels_that_do_not_fit_the_pictures_are_refused(folder):
    write_idx(folder / "t10k-labels-idx1-ubyte.gz", np.arange(99) % 10)
    with pytest.raises(DataError, match="label from 0 to 9"):
        fashion_sets(folder)


def test_private_and_public_pictures_share_none_and_the_tail_is_long(folder):
    sets = fashion_sets(folder)
    assert not set(sets.private.names) & set(sets.public.names)
    assert sets.public.labels is None
    assert len(sets.public) == 300  # a third
    assert tuple(np.bincount(sets.private.labels, minlength=10).tolist()) == sets.sizes
    assert max(sets.sizes) >= 9 * min(sets.sizes)
    assert len(set(np.bincount(sets.test.labels).tolist())) == 1
    assert sets.classes == CLASSES


def test_pictures_keep_their_labels(folder):
    write_idx(folder / "a.gz", array := np.arange(24).reshape(2, 3, 4))
    assert np.array_equal(read_idx(folder / "a.gz"), array)
    sets = fashion_sets(folder)
    numbers = [int(name.removeprefix("train-")) for name in sets.private.names]
    assert np.array_equal(np.array(numbers) % 10, sets.private.labels)
