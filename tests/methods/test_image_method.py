import json

import numpy as np
import pytest
from PIL import Image

from dptransfer.data import PrivateImages, PublicImages
from dptransfer.errors import ArgumentError, Incompatible
from dptransfer.ledger import Ledger
from dptransfer.methods import FiLM
from dptransfer.methods.base import configuration_of
from dptransfer.methods.recorded import method_from_configuration
from dptransfer.named import named_method
from dptransfer.noise import SeededNoise
from dptransfer.privacy import Budget

pytest.importorskip("torch")

BUDGET = Budget(epsilon=8.0, delta=1e-5)
TWELVE = (0, 4095)


@pytest.fixture
def files(tmp_path):
    """Two pictures of twelve bits in sixteen."""
    rng = np.random.default_rng(0)
    for name in ("a.png", "b.png"):
        Image.fromarray(rng.integers(0, 4096, (8, 8)).astype(np.uint16)).save(tmp_path / name)
    return [tmp_path / "a.png", tmp_path / "b.png"]


def private(files, grey_range):
    return PrivateImages(files, [0, 1], classes=["a", "b"], resolution=8, grey_range=grey_range)


def test_pictures_that_are_read_otherwise_than_the_method_says_are_refused_before_the_charge(files):
    method = FiLM(encoder="small-cnn", size=8, steps=1, grey_range=TWELVE)
    ledger = Ledger.in_memory()
    alike = private(files, TWELVE), PublicImages(files, resolution=8, grey_range=TWELVE)
    other = private(files, None), PublicImages(files, resolution=8, grey_range=(0, 65535))
    for data in ((other[0], None), (other[0], alike[1]), (alike[0], other[1])):
        with pytest.raises(Incompatible, match="grey_range"):
            method.fit(*data, budget=BUDGET, ledger=ledger)
    with pytest.raises(Incompatible, match="grey_range"):
        FiLM(encoder="small-cnn", size=8, steps=1).fit(alike[0], budget=BUDGET, ledger=ledger)
    assert ledger.history() == []


def test_a_release_reads_pictures_as_those_were_that_it_was_fitted_on(files, tmp_path):
    from dptransfer.encoders import encode_images_in_memory, encode_pixels, encoder_of
    from dptransfer.release import read_release, write_release

    method = FiLM(encoder="small-cnn", size=8, steps=1, grey_range=TWELVE)
    data = private(files, TWELVE)
    fitted = method.fit(data, budget=BUDGET, ledger=Ledger.in_memory(), noise=SeededNoise(0))
    write_release(fitted, tmp_path / "model", unsafe_for_publication=True)
    model = read_release(tmp_path / "model")
    assert model.encoder.grey_range == (0.0, 4095.0)
    encoder = encoder_of(model.encoder_delta.base, delta=model.encoder_delta)
    rows, unreadable = encode_images_in_memory(files, encoder)
    assert unreadable == ()
    assert (rows == encode_pixels(data.pixels[:], encoder, batch=8)).all()


def test_a_range_is_checked_and_comes_back_from_a_configuration():
    with pytest.raises(ArgumentError, match="two numbers"):
        FiLM(grey_range=(1, 0))
    method = FiLM(grey_range=TWELVE)
    recorded = json.loads(json.dumps(configuration_of(method)))
    assert method_from_configuration(recorded) == method
    del recorded["grey_range"]  # as releases of earlier versions have it
    assert method_from_configuration(recorded) == FiLM()
    assert named_method("film", {"grey_range": "0,4095"}) == method
