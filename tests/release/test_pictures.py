"""A model predicts pictures by its own encoder: as the release changes it, found once, or refused."""

from dataclasses import replace

import numpy as np
import pytest

import dptransfer as dpt
from dptransfer.encoders import EncoderDelta, adapted, encode_pixels, encoder_of, get_encoder
from dptransfer.errors import DataError
from dptransfer.features import UnitNorm
from dptransfer.release import pictures

from .models import heads, make_model

pytest.importorskip("torch")

SIDE = 16
PIXELS = np.random.default_rng(0).integers(0, 256, (5, SIDE, SIDE, 3), dtype=np.uint8)


@pytest.fixture(scope="module")
def encoder():
    return get_encoder("small-cnn", size=SIDE)


@pytest.fixture(scope="module")
def model(encoder):
    """Of rows of a plain encoder."""
    features = UnitNorm().fit(encoder.dimension, None)
    made = replace(make_model(), head=heads(encoder.dimension)["linear"], features=features)
    return replace(made, facts=replace(made.facts, shape=(encoder.dimension,), encoder=encoder.identity))


@pytest.fixture(scope="module")
def changed(model, encoder):
    """Of rows of an encoder that it changed."""
    name, value = next((n, v) for n, v in encoder.module.named_parameters() if v.ndim == 1)
    new = np.linspace(-3, 3, len(value), dtype=np.float32)
    facts = replace(model.facts, shape=(SIDE, SIDE, 3), encoder=None)
    return replace(model, facts=facts, encoder_delta=EncoderDelta(encoder.identity, "state", {name: new}))


def test_pictures_are_seen_by_the_encoder_on_record_as_the_release_changes_it(model, changed, encoder):
    own = {model: encoder, changed: adapted(encoder, changed.encoder_delta)}
    for one, seen_by in own.items():
        rows = encode_pixels(PIXELS, seen_by)
        assert (one.scores(PIXELS) == one.scores(rows)).all()
        assert (one.predict(PIXELS) == one.predict(rows)).all()
        assert (one.predict_proba(PIXELS) == one.predict_proba(rows)).all()
        assert one.score(PIXELS, one.predict(rows)) == 1
    assert (model.scores(PIXELS) != changed.scores(PIXELS)).any()


def test_pictures_of_another_size_are_squeezed_and_none_at_all_are_no_error(changed, encoder):
    large = PIXELS.repeat(2, axis=1).repeat(3, axis=2)
    assert np.isfinite(changed.scores(large)).all()
    assert changed.predict(PIXELS[:0]).shape == (0,)
    assert (changed.scores(list(PIXELS)) == changed.scores(PIXELS)).all()


def test_a_model_that_was_saved_predicts_the_same(changed, tmp_path):
    again = dpt.load(changed.save(tmp_path / "model", unsafe_for_publication=True))
    assert (again.scores(PIXELS) == changed.scores(PIXELS)).all()


def test_the_encoder_is_loaded_once_for_many_calls(changed, monkeypatch):
    loads = []
    pictures._loaded.cache_clear()
    monkeypatch.setattr(
        "dptransfer.encoders.encoder_of", lambda *given, **how: loads.append(1) or encoder_of(*given, **how)
    )
    for one in range(3):
        changed.predict(PIXELS[one : one + 1])
    assert len(loads) == 1


@pytest.mark.parametrize(
    "wrong", [PIXELS / 255, PIXELS[..., :1], PIXELS[:, :0], PIXELS.astype(np.int64)], ids=str
)
def test_what_is_no_picture_of_bytes_is_refused(changed, wrong):
    with pytest.raises(DataError, match="must be bytes"):
        changed.predict(wrong)


def test_a_model_without_an_encoder_that_is_found_takes_rows_alone(model):
    nameless = replace(model, facts=replace(model.facts, encoder=None))
    with pytest.raises(DataError, match="names none"):
        nameless.predict(PIXELS)
    with pytest.raises(DataError, match="no installed package"):
        make_model().predict(PIXELS)  # of an encoder called 'tiny-net'
