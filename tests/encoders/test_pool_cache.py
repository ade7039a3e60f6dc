"""A public pool is encoded once for many fits, and nothing private is ever cached."""

import os
import shutil
import time

import numpy as np
import pytest
from PIL import Image

import dptransfer as dpt
from dptransfer.encoders import pool_cache
from dptransfer.errors import DPTransferError
from dptransfer.sources import find_images, read_table

from .toys import MeanColour, WordLengths, pictures

pytestmark = pytest.mark.usefixtures("repeatable_noise")


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("DPTRANSFER_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def pool(tmp_path):
    return pictures(tmp_path / "pool", 12, size=20)


def photos(tmp_path, name, seed):
    folder = tmp_path / name
    rng = np.random.default_rng(seed)
    for number in range(8):
        file = folder / ("cat", "dog")[number % 2] / f"{number}.png"
        file.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(rng.integers(0, 256, (10, 10, 3), dtype=np.uint8)).save(file)
    return folder


def fitted(private, pool, *, encoder=None, **how):
    """How many pictures were encoded, and the model."""
    encoder = encoder or MeanColour()
    how = {"epsilon": 8, "method": "mean", "encoder": encoder, "ledger": dpt.Ledger.in_memory(), **how}
    model = dpt.fit(private, public=pool, **how)
    return sum(encoder.calls), model


def rows_in(cache):
    return sorted(cache.glob("pool-*.emb"))


def test_a_second_fit_on_other_photographs_does_not_encode_the_pool_again(tmp_path, pool, cache):
    first, one = fitted(photos(tmp_path, "a", 1), pool)
    second, two = fitted(photos(tmp_path, "b", 2), pool)
    assert first - second >= 12
    assert one.provenance.public == two.provenance.public
    assert len(rows_in(cache)) == 1
    assert len(read_table(rows_in(cache)[0]).rows) == 12  # and no private one


def test_a_copy_of_the_pool_elsewhere_is_the_same_pool(tmp_path, pool):
    first, _ = fitted(photos(tmp_path, "a", 1), pool)
    shutil.copytree(pool, tmp_path / "elsewhere" / "pool")
    second, _ = fitted(photos(tmp_path, "b", 2), tmp_path / "elsewhere" / "pool")
    assert first - second >= 12


@pytest.mark.parametrize("change", ["content", "one less", "class", "name", "encoder"])
def test_whatever_the_rows_depend_on_makes_another_pool(tmp_path, pool, cache, change):
    fitted(photos(tmp_path, "a", 1), pool)
    encoder = None
    file = sorted(pool.rglob("*.png"))[0]
    if change == "content":
        Image.new("RGB", (20, 20), (9, 9, 9)).save(file)
    elif change == "one less":
        file.unlink()
    elif change == "class":
        (pool / "cat").rename(pool / "cow")
    elif change == "name":
        file.rename(file.with_name(f"{file.stem}-other.png"))  # in the same place among them
    else:
        encoder = MeanColour(name="another")
    fitted(photos(tmp_path, "b", 2), pool, encoder=encoder)
    assert len(rows_in(cache)) == 2


def test_labels_beside_the_same_files_make_another_pool(tmp_path, pool):
    files = sorted(path.relative_to(tmp_path) for path in pool.rglob("*.png"))
    keys = set()
    for turn in (0, 1, 0):
        lines = [f"{file},{('cat', 'dog')[(place + turn) % 2]}" for place, file in enumerate(files)]
        (tmp_path / "pool.csv").write_text("\n".join(["path,label", *lines]))
        found = find_images(tmp_path / "pool.csv", classes=["cat", "dog"])
        keys.add(pool_cache._key(found, MeanColour()))
    assert len(keys) == 2


def test_texts_are_cached_by_what_they_say(tmp_path, cache):
    (tmp_path / "pool.txt").write_text("\n".join(f"text {'a' * n}" for n in range(20)))
    texts, labels = ["a long text", "no"] * 20, ["a", "b"] * 20
    how = {"y": labels, "classes": ["a", "b"], "name": "t"}
    first, _ = fitted(texts, tmp_path / "pool.txt", encoder=WordLengths(), **how)
    second, _ = fitted(texts, tmp_path / "pool.txt", encoder=WordLengths(), **how)
    assert first - second >= 20
    (tmp_path / "pool.txt").write_text("\n".join(f"text {'b' * n}" for n in range(20)))
    third, _ = fitted(texts, tmp_path / "pool.txt", encoder=WordLengths(), **how)
    assert third == first
    assert len(rows_in(cache)) == 2


def test_a_fit_that_is_refused_after_the_pool_was_encoded_caches_nothing(tmp_path, pool, cache):
    private, encoder = photos(tmp_path, "a", 1), MeanColour()
    (private / "cat" / "0.png").write_bytes(b"no picture")
    with pytest.raises(DPTransferError):
        fitted(private, pool, encoder=encoder)
    assert sum(encoder.calls) >= 12
    assert rows_in(cache) == []


def test_a_damaged_pool_is_made_again(tmp_path, pool, cache):
    first, _ = fitted(photos(tmp_path, "a", 1), pool)
    (place,) = rows_in(cache)
    rows = place / "rows-00000.npy"
    rows.write_bytes(rows.read_bytes()[:-1] + b"?")
    second, _ = fitted(photos(tmp_path, "b", 2), pool)
    assert second == first
    assert rows_in(cache) == [place]
    assert pool_cache._is_whole(place)


def test_a_cache_that_cannot_be_written_costs_time_alone(tmp_path, pool, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("DPTRANSFER_CACHE", str(tmp_path / "file" / "below"))
    first, _ = fitted(photos(tmp_path, "a", 1), pool)
    assert fitted(photos(tmp_path, "b", 2), pool)[0] == first


@pytest.mark.parametrize(("hours", "left"), [(8, 4), (4, 7), (1, 8)])
def test_the_pools_that_were_used_last_stay_and_all_of_the_last_day(cache, hours, left):
    cache.mkdir()
    for age in range(8):
        place = cache / f"pool-1-{age}.emb"
        place.mkdir()
        os.utime(place, (0, time.time() - age * hours * 3600 + 60))
    pool_cache._drop_old(cache)
    assert [place.name for place in rows_in(cache)] == [f"pool-1-{age}.emb" for age in range(left)]


def test_a_pool_that_is_used_again_counts_as_new(tmp_path, pool, cache):
    fitted(photos(tmp_path, "a", 1), pool)
    (place,) = rows_in(cache)
    os.utime(place, (0, 0))
    fitted(photos(tmp_path, "b", 2), pool)
    assert time.time() - place.stat().st_mtime < 3600
