"""A model predicts pictures by its own encoder: as the release changes it, found once, or refused."""

from dataclasses import replace
from unittest import mock

import numpy as np
import pytest
from PIL import Image

from dptransfer.encoders import (
    EncoderDelta,
    apply_delta,
    encode_pixels,
    encoder_of,
    get_encoder,
    model_inputs,
)
from dptransfer.errors import DataError, Incompatible
from dptransfer.exact.feature_map import UnitNorm
from encoders.toys import WordLengths
from release.models import heads, make_model

pytest.importorskip("torch")

SIDE = 16
PIXELS = np.random.default_rng(0).integers(0, 256, (5, SIDE, SIDE, 3), dtype=np.uint8)


@pytest.fixture(scope="module")
def encoder():
    return get_encoder("small-cnn", size=SIDE)


def model_of(encoder):
    """A model of an encoder's rows."""
    features, made = UnitNorm().fit(encoder.dimension, None), make_model()
    facts = replace(made.facts, shape=(encoder.dimension,), encoder=encoder.identity)
    return replace(made, head=heads(encoder.dimension)["linear"], features=features, facts=facts)


@pytest.fixture(scope="module")
def model(encoder):
    return model_of(encoder)


@pytest.fixture(scope="module")
def changed(model, encoder):
    """Of rows of an encoder that it changed."""
    name, value = next((n, v) for n, v in encoder.module.named_parameters() if v.ndim == 1)
    new = np.linspace(-3, 3, len(value), dtype=np.float32)
    facts = replace(model.facts, shape=(SIDE, SIDE, 3), encoder=None)
    return replace(model, facts=facts, encoder_delta=EncoderDelta(encoder.identity, "state", {name: new}))


def test_pictures_are_seen_by_the_encoder_on_record_as_the_release_changes_it(model, changed, encoder):
    own = {model: encoder, changed: apply_delta(encoder, changed.encoder_delta)}
    for one, seen_by in own.items():
        rows = encode_pixels(PIXELS, seen_by)
        assert (one.scores(PIXELS) == one.scores(rows)).all()
        assert (one.predict(PIXELS) == one.predict(rows)).all()
        assert (one.predict_proba(PIXELS) == one.predict_proba(rows)).all()
        assert one.score(PIXELS, one.predict(rows)) == 1
    assert (model.scores(PIXELS) != changed.scores(PIXELS)).any()


def test_the_encoder_is_loaded_once_for_many_calls(changed, monkeypatch):
    loads = mock.Mock(wraps=encoder_of)
    model_inputs._load.cache_clear()
    monkeypatch.setattr(model_inputs, "encoder_of", loads)
    for one in range(3):
        changed.predict(PIXELS[one : one + 1])
    assert loads.call_count == 1


@pytest.mark.parametrize(
    "wrong", [PIXELS / 255, PIXELS[..., :1], PIXELS[:, :0]], ids=["floats", "grey", "empty"]
)
def test_what_is_no_picture_of_bytes_is_refused(changed, wrong):
    with pytest.raises(DataError, match="must be uint8"):
        changed.predict(wrong)


def test_a_model_without_an_encoder_that_is_found_takes_rows_alone(model):
    nameless = replace(model, facts=replace(model.facts, encoder=None))
    with pytest.raises(DataError, match="names none"):
        nameless.predict(PIXELS)
    with pytest.raises(DataError, match="no installed package"):
        make_model().predict(PIXELS)  # of an encoder called 'tiny-net'


@pytest.fixture
def files(tmp_path):
    """Pictures of several sizes in a folder, in the order of their names."""
    rng = np.random.default_rng(3)
    for number, side in enumerate((16, 24, 40)):
        pixels = rng.integers(0, 256, (side, side, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(tmp_path / f"{number}.png")
    return sorted(tmp_path.glob("*.png"))


def test_whatever_a_fit_takes_as_pictures_is_predicted_with_one_answer_each(model, files):
    opened = [Image.open(file) for file in files]
    expected = np.concatenate([model.scores(np.asarray(one)[None]) for one in opened])
    contents, arrays = [file.read_bytes() for file in files], [np.asarray(one) for one in opened]
    for one in (files[0], str(files[0]), contents[0], arrays[0], opened[0]):
        assert np.allclose(model.scores(one), expected[:1], rtol=1e-12)
        assert model.predict(one).shape == (1,)
        assert model.predict_proba(one).shape == (1, len(model.classes))
    mixed = [files[0], opened[1], contents[2]]
    for some in (files[0].parent, files, contents, tuple(opened), arrays, mixed):
        assert np.allclose(model.scores(some), expected, rtol=1e-12)
    truth = model.predict(files)
    assert model.score(files, truth) == 1
    assert model.predict(PIXELS[:0]).shape == (0,)


def test_what_cannot_be_seen_is_one_error(model, files, tmp_path):
    deep = Image.fromarray(np.full((8, 8), 50_000, np.uint16))
    for odd, said in (
        (b"no picture", "number 0"),
        ([files[0].read_bytes(), b"no picture"], "number 1"),
        (tmp_path / "nowhere.png", "must exist"),
        ("a text", "even one alone"),
        (["a text", "and another"], "takes images"),
        (deep, "mode"),
        ([files[0], tmp_path / "nowhere.png"], "nowhere.png"),
        (b"\0" * 128 + b"DICM", "Pass the path"),
        (np.array(["a.png", None], dtype=object), "real numbers"),
    ):
        with pytest.raises(DataError, match=said):
            model.predict(odd)
    (tmp_path / "rows.mat").touch()
    with pytest.raises(DataError, match="Unknown file type"):
        model.predict(tmp_path / "rows.mat")


def test_rows_at_a_path_are_those_of_the_model_or_refused(model, encoder, tmp_path):
    rows = np.random.default_rng(5).normal(size=(4, encoder.dimension)).astype(np.float32)
    np.save(tmp_path / "rows.npy", rows)
    assert np.array_equal(model.scores(str(tmp_path / "rows.npy")), model.scores(rows))
    np.save(tmp_path / "narrow.npy", rows[:, 1:])
    with pytest.raises(Incompatible, match="dimension"):
        model.predict(tmp_path / "narrow.npy")


def test_texts_are_a_list_and_become_rows_by_the_encoder_on_record(tmp_path, monkeypatch):
    words = WordLengths()
    monkeypatch.setattr("dptransfer.encoders.model_inputs.encoder_of", lambda *given, **how: words)
    model_inputs._load.cache_clear()
    made = model_of(words)
    texts = ["hello there", "no", "so it is"]
    expected = made.scores(words.encode(texts))
    (tmp_path / "texts.txt").write_text("\n".join(texts))
    arrays = np.array(texts), np.array(texts, dtype=object)
    for given in (texts, tuple(texts), *arrays, tmp_path / "texts.txt"):
        assert np.allclose(made.scores(given), expected, rtol=1e-12)
    assert made.predict(texts[:1]).shape == (1,)
    model_inputs._load.cache_clear()
