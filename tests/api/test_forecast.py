import numpy as np
import pytest

from dptransfer.api.checkup import ALMOST_NO_NOISE, EncodingTime, check
from dptransfer.data import EncoderIdentity, PrivateEmbeddings, PublicEmbeddings, ShardedRows
from dptransfer.errors import ArgumentError
from dptransfer.methods import auto


class Slow:
    """An encoder that takes its time by a clock of its own: 4 s for a batch, and 100 s for the first."""

    identity, dimension, kind = EncoderIdentity("slow", "0", "rgb 8"), 2, "image"

    def __init__(self):
        self.pictures, self.clock = [], 0.0

    def encode(self, batch):
        self.clock += 4.0 if self.pictures else 100.0
        self.pictures += batch
        return np.zeros((len(batch), 2), dtype=np.float32)


def rows(count, seed=0):
    return np.random.default_rng(seed).normal(size=(count, 8))


def private(seed=0, **how):
    return PrivateEmbeddings(rows(80, seed), [0, 1] * 40, classes=[0, 1], **how)


@pytest.fixture(scope="module")
def found():
    return check(private(size=400), PublicEmbeddings(rows(220, 1)), epsilons=[0.5, 2])


def test_accuracies_grow_with_epsilon_and_end_without_noise(found):
    assert [one.epsilon for one in found.expected] == [0.5, 2, ALMOST_NO_NOISE]
    means = [one.mean for one in found.expected]
    assert means == sorted(means)
    assert all(one.lowest <= one.mean <= one.highest for one in found.expected)


def test_no_private_row_or_count_moves_them(found):
    def other(size):
        return PrivateEmbeddings(rows(33, 5), [1] * 33, classes=[0, 1], size=size)

    again = check(other(400), PublicEmbeddings(rows(220, 1)), epsilons=[0.5, 2])
    assert again.expected == found.expected
    declared = check(other(4000), PublicEmbeddings(rows(220, 1)), epsilons=[0.5, 2])
    assert declared.expected != found.expected  # what is declared does


def test_a_pool_in_many_files_is_forecast_from_and_looked_through_like_any_other(found, tmp_path):
    for number, part in enumerate(np.split(rows(220, 1), 4)):
        np.save(tmp_path / f"{number}.npy", part)
    pool = PublicEmbeddings(ShardedRows(sorted(tmp_path.iterdir())))
    again = check(private(size=400), pool, epsilons=[0.5, 2])
    assert again.expected == found.expected
    assert again.findings == found.findings


def test_the_report_says_what_they_can_tell_and_what_not(found):
    text = " ".join(str(found).split())
    assert "400 examples, as declared" in text
    assert "how hard" in text


def test_the_assumed_size_is_the_one_that_auto_assumes():
    people = check(private(people=range(80)), PublicEmbeddings(rows(220, 1)), epsilons=[1])
    assert "100 people a class" in " ".join(str(people).split())
    assert "100 people per class" in auto._sizes(people.facts)


def test_without_a_pool_of_rows_it_says_what_is_missing():
    few = check(private(), PublicEmbeddings(rows(20)))
    assert few.expected == ()
    assert "Accuracy to expect: the pool has 20 rows" in few.unchecked[-1]
    assert "no public pool" in check(private()).unchecked[-1]


def test_what_is_declared_is_checked_before_the_work():
    with pytest.raises(ArgumentError, match="size"):
        check(private(size=-3), PublicEmbeddings(rows(220, 1)))


def test_the_time_to_encode_is_measured_on_blank_pictures(monkeypatch):
    slow = Slow()
    monkeypatch.setattr("dptransfer.api.checkup.time.perf_counter", lambda: slow.clock)
    taken = EncodingTime.of(slow, 600, opening=30.0)
    assert (taken.each, taken.seconds) == (0.5, 330.0)
    assert taken.sentence.startswith("About 6 min for 600 examples with 'slow' on this machine: 0.5 s each")
    assert not any(np.asarray(picture).any() for picture in slow.pictures)


def test_pictures_to_encode_are_counted_over_all_sets(photos):
    found = check(photos / "private", photos / "public", encoder=Slow())
    assert found.encoding.examples == 80
    assert "Time to encode" in str(found)
