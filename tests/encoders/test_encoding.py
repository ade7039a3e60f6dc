"""Unreadable files are named for their owner alone; a public pool is cached, and nothing private ever is."""

import errno
import os
import shutil
import time
from pathlib import Path

import pytest
from PIL import Image

import dptransfer as dpt
from dptransfer.encoders import encoding
from dptransfer.encoders.encoding import note_problems, refuse_problems, same_place
from dptransfer.errors import DataError, DPTransferError
from dptransfer.sources import read_table

from .toys import MeanColour, WordLengths, pictures


def test_names_go_to_a_file_for_the_owners_eyes_and_not_into_the_message(tmp_path):
    (tmp_path / "p.emb.problems.txt").write_text("an older list, which others may read")
    with pytest.raises(DataError) as refusal:
        refuse_problems(["Jane Doe.png", "b\nc.png", "\udcff.png"], tmp_path / "p.emb", remedy="Repair them.")
    file = tmp_path / "p.emb.problems.txt"
    assert str(file) in str(refusal.value)
    assert "Jane" not in str(refusal.value)
    assert file.read_bytes() == b"Jane Doe.png\n'b\\nc.png'\n\xff.png\n"
    assert file.stat().st_mode & 0o777 == 0o600


def test_without_problems_nothing_is_said_and_an_old_list_goes(tmp_path):
    (tmp_path / "p.emb.problems.txt").write_text("old")
    refuse_problems([], tmp_path / "p.emb", remedy="")
    assert list(tmp_path.iterdir()) == []
    refuse_problems([], tmp_path / "p.emb", remedy="")


def test_one_place_holds_another_by_whatever_name(tmp_path):
    inner = tmp_path / "photos" / "cat"
    inner.mkdir(parents=True)
    (tmp_path / "photos.csv").touch()
    (tmp_path / "photos 2").mkdir()
    (tmp_path / "link").symlink_to(inner)
    photos = tmp_path / "photos"
    for one, other in (
        (photos, inner),
        (photos, tmp_path / "link"),
        (tmp_path, tmp_path / "photos.csv"),
        (photos, inner / ".."),
    ):
        assert same_place(one, other)
        assert same_place(other, one)
    for other in (tmp_path / "photos 2", tmp_path / "photos.csv", photos / "none"):
        assert not same_place(photos, other)


def test_on_a_disk_that_cannot_be_written_no_list_is_missed_where_nothing_is_to_be_listed(
    tmp_path, monkeypatch
):
    def refuse(path, missing_ok=False):
        raise OSError(errno.EROFS, "Read-only file system")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", refuse)  # such a disk refuses though there is no file
        assert note_problems([], tmp_path / "photos") is None
        with pytest.raises(DataError, match="Read-only") as refusal:
            note_problems(["Jane Doe.png"], tmp_path / "photos")
    assert "Jane" not in str(refusal.value)
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def cache(tmp_path, monkeypatch, repeatable_noise):
    monkeypatch.setenv("DPTRANSFER_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def pool(tmp_path, cache):
    return pictures(tmp_path / "pool", 12, size=20)


@pytest.fixture
def fit(tmp_path, cache):
    """Fits to eight photographs of their own; how many pictures were encoded, and the model."""

    def fit_to(seed, pool, encoder=None):
        encoder = encoder or MeanColour()
        private = pictures(tmp_path / str(seed), 8, size=10, seed=seed)
        how = {"epsilon": 8, "method": "mean", "encoder": encoder, "ledger": dpt.Ledger.in_memory()}
        model = dpt.fit(private, public=pool, **how)
        return sum(encoder.calls), model

    return fit_to


def rows_in(cache):
    return sorted(cache.glob("pool-*.emb"))


def test_a_pool_and_a_copy_of_it_are_not_encoded_again_for_other_photographs(tmp_path, fit, pool, cache):
    first, one = fit(1, pool)
    shutil.copytree(pool, tmp_path / "elsewhere" / "pool")
    for seed, again in enumerate((pool, tmp_path / "elsewhere" / "pool"), 2):
        count, model = fit(seed, again)
        assert first - count >= 12
        assert one.provenance.public == model.provenance.public
    (place,) = rows_in(cache)
    assert len(read_table(place).rows) == 12  # and no private one


@pytest.mark.parametrize("change", ["content", "one less", "class", "name", "encoder"])
def test_whatever_the_rows_depend_on_makes_another_pool(fit, pool, cache, change):
    fit(1, pool)
    file = sorted(pool.rglob("*.png"))[0]
    if change == "content":
        Image.new("RGB", (20, 20), (9, 9, 9)).save(file)
    elif change == "one less":
        file.unlink()
    elif change == "class":
        (pool / "cat").rename(pool / "cow")
    elif change == "name":
        file.rename(file.with_name(f"{file.stem}-other.png"))  # in the same place among them
    fit(2, pool, MeanColour(name="another") if change == "encoder" else None)
    assert len(rows_in(cache)) == 2


def test_texts_are_cached_by_what_they_say(tmp_path, cache):
    def count():
        encoder = WordLengths()
        how = {"y": ["a", "b"] * 20, "classes": ["a", "b"], "name": "t", "encoder": encoder, "method": "mean"}
        pool, ledger = tmp_path / "pool.txt", dpt.Ledger.in_memory()
        dpt.fit(["a long text", "no"] * 20, public=pool, epsilon=8, ledger=ledger, **how)
        return sum(encoder.calls)

    (tmp_path / "pool.txt").write_text("\n".join(f"text {'a' * n}" for n in range(20)))
    first = count()
    assert first - count() >= 20
    (tmp_path / "pool.txt").write_text("\n".join(f"text {'b' * n}" for n in range(20)))
    assert count() == first
    assert len(rows_in(cache)) == 2


def test_a_fit_that_is_refused_after_the_pool_was_encoded_caches_nothing(tmp_path, fit, pool, cache):
    encoder = MeanColour()
    (tmp_path / "1" / "cat").mkdir(parents=True)
    (tmp_path / "1" / "cat" / "no.png").write_bytes(b"no picture")
    with pytest.raises(DPTransferError):
        fit(1, pool, encoder)
    assert sum(encoder.calls) >= 12
    assert rows_in(cache) == []


def test_a_damaged_pool_is_made_again(fit, pool, cache):
    first, _ = fit(1, pool)
    (place,) = rows_in(cache)
    rows = place / "rows-00000.npy"
    rows.write_bytes(rows.read_bytes()[:-1] + b"?")
    assert fit(2, pool)[0] == first
    assert rows_in(cache) == [place]
    assert encoding._is_whole(place)


@pytest.mark.parametrize(("hours", "left"), [(8, 4), (4, 7)])
def test_the_pools_that_were_used_last_stay_and_all_of_the_last_day(cache, hours, left):
    cache.mkdir()
    for age in range(8):
        place = cache / f"pool-1-{age}.emb"
        place.mkdir()
        os.utime(place, (0, time.time() - age * hours * 3600 + 60))
    encoding._drop_old(cache)
    assert [place.name for place in rows_in(cache)] == [f"pool-1-{age}.emb" for age in range(left)]
