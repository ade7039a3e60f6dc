import sys

import pytest

from dptransfer import encoders
from dptransfer.encoders import Encoder, available_encoders, get_encoder
from dptransfer.errors import ArgumentError, MissingDependency

from .toys import MeanColour, WordLengths


def test_an_unknown_name_is_answered_with_the_nearest_and_the_list():
    with pytest.raises(ArgumentError, match="Did you mean 'efficientnet-lite0'") as caught:
        get_encoder("efficientnet-light0")
    assert all(note.name in str(caught.value) for note in available_encoders())
    with pytest.raises(ArgumentError) as caught:
        get_encoder("zzz")
    assert "Did you mean" not in str(caught.value)


def test_each_known_encoder_states_licence_and_training_data():
    for note in available_encoders():
        assert note.licence
        assert note.training_data


@pytest.mark.parametrize(
    ("spec", "package", "extra"),
    [
        ("efficientnet-lite0", "torch", "torch"),
        ("efficientnet-lite0", "efficientnet_lite_pytorch", "torch"),
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


def test_all_is_sorted_and_each_name_is_there():
    assert encoders.__all__ == sorted(encoders.__all__)
    assert all(hasattr(encoders, name) for name in encoders.__all__)
