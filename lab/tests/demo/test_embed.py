import numpy as np
import pytest

from dptransfer_lab.demo.embed import claim_folder, embed

from .conftest import PixelEncoder, tiny_sets


@pytest.fixture
def out(tmp_path):
    claim_folder(tmp_path / "demo")
    return tmp_path / "demo"


def embedded(out, sets=None, encoder=None):
    return embed(sets or tiny_sets(), encoder or PixelEncoder(), out, progress=lambda *_: None)


def test_rows_are_those_of_the_pictures_with_their_labels(out):
    sets, seen = tiny_sets(), {}
    rows = embed(sets, PixelEncoder(), out, progress=lambda part, *counts: seen.update({part: counts}))
    assert np.array_equal(rows.private.rows, sets.private.pixels.reshape(120, -1) + 1.0)
    assert np.array_equal(rows.private.labels, sets.private.labels)
    assert np.array_equal(rows.test_labels, sets.test.labels)
    assert rows.private.name == "demo-tiny"
    assert rows.public.labels is None
    assert rows.public.sources[0] == "g-0.png"
    assert seen == {"private": (120, 120), "test": (30, 30), "public": (120, 120)}


def test_whatever_is_not_as_it_was_is_encoded_again(out):
    embedded(out)
    with (out / "public.emb" / "rows-00000.npy").open("r+b") as stream:
        stream.truncate(500)
    assert embedded(out).reused == ("private", "test")
    again = embedded(out, tiny_sets(seed=1))
    assert again.reused == ()
    assert np.array_equal(again.test, tiny_sets(seed=1).test.pixels.reshape(30, -1) + 1.0)
    other = PixelEncoder()
    other.identity = type(other.identity)("pixels", "1" * 64, "grey 8 bicubic")
    assert embedded(out, tiny_sets(seed=1), other).reused == ()
