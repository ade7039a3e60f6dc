import numpy as np
import pytest

from dptransfer_lab.demo.embed import claim_folder, embed

from .conftest import PixelEncoder, tiny_sets


@pytest.fixture
def out(tmp_path):
    claim_folder(tmp_path / "demo")
    return tmp_path / "demo"


def quiet(part, done, total):
    pass


def test_rows_are_those_of_the_pictures_with_their_labels(out):
    sets = tiny_sets()
    rows = embed(sets, PixelEncoder(), out, progress=quiet)
    assert np.array_equal(rows.private.rows, sets.private.pixels.reshape(120, -1) + 1.0)
    assert np.array_equal(rows.private.labels, sets.private.labels)
    assert np.array_equal(rows.test_labels, sets.test.labels)
    assert rows.private.name == "demo-tiny"
    assert rows.public.labels is None
    assert rows.public.sources[0] == "g-0.png"


def test_changed_pictures_are_encoded_again_and_old_files_go(out):
    embed(tiny_sets(), PixelEncoder(), out, progress=quiet)
    again = embed(tiny_sets(seed=1), PixelEncoder(), out, progress=quiet)
    assert again.reused == ()
    assert np.array_equal(again.test, tiny_sets(seed=1).test.pixels.reshape(30, -1) + 1.0)


def test_a_damaged_store_is_encoded_again(out):
    embed(tiny_sets(), PixelEncoder(), out, progress=quiet)
    with (out / "public.emb" / "rows-00000.npy").open("r+b") as stream:
        stream.truncate(500)
    assert embed(tiny_sets(), PixelEncoder(), out, progress=quiet).reused == ("private", "test")


def test_another_encoder_means_encoding_again(out):
    embed(tiny_sets(), PixelEncoder(), out, progress=quiet)
    other = PixelEncoder()
    other.identity = type(other.identity)("pixels", "1" * 64, "grey 8 bicubic")
    assert embed(tiny_sets(), other, out, progress=quiet).reused == ()


def test_progress_reaches_the_end_of_each_part(out):
    seen = {}
    embed(
        tiny_sets(),
        PixelEncoder(),
        out,
        progress=lambda part, done, total: seen.update({part: (done, total)}),
    )
    assert seen == {"private": (120, 120), "test": (30, 30), "public": (120, 120)}
