from dataclasses import dataclass
from itertools import combinations

import numpy as np
import pytest

from contracts.backwards import Backwards
from dptransfer.base import workers as pieces
from dptransfer.base.progress import reported_to
from dptransfer.base.workers import ThisProcess
from dptransfer.data import PublicEmbeddings, ShardedRows
from dptransfer.errors import DataError
from dptransfer.exact.feature_map import UnitNorm
from dptransfer.exact.public_map import PublicMap
from dptransfer.mechanisms import SELECTIONS, TopKMechanism, pool_choice
from dptransfer.mechanisms.pool_choice import ScoreTable, choose_candidates
from dptransfer.noise import SeededNoise
from dptransfer.privacy import Bound, Relation, Unit
from dptransfer.queries import SimilarityScores
from dptransfer.queries.similarity import GridPool

RNG = np.random.default_rng(0)
POOL = RNG.normal(size=(100, 6)).astype(np.float32)
ROWS, LABELS = RNG.normal(size=(90, 6)), np.arange(90) % 3
PEOPLE = np.arange(90) // 4
CHOICES = {**SELECTIONS, "top-k": lambda *given: TopKMechanism(*given, 4)}


def choose(name, *, caps=(0.0, 2.0), people=None, workers=None, precision="float16", pool=POOL):
    features = UnitNorm().fit(6, None)
    candidates = GridPool(features, pool, precision)
    bound = Bound(Unit.ROW if people is None else Unit.PERSON)
    given = {"workers": workers or ThisProcess(), "precision": precision, "bound": bound}
    query = SimilarityScores(features, candidates, 3, *caps, **given)
    made = CHOICES[name](query, 5.0, Relation.ADD_REMOVE)
    return made.release(ROWS, LABELS, people, noise=SeededNoise(7)).tolist()


@pytest.mark.parametrize("name", CHOICES)
@pytest.mark.parametrize("how", [{}, {"caps": (0.8, 1.3)}, {"people": PEOPLE}, {"precision": "int8"}])
def test_the_choice_does_not_depend_on_pieces_or_on_who_worked(name, how, monkeypatch):
    once = choose(name, **how)
    for bytes_at_once in (48 * 57, 48 * 9):  # pieces of 57 and of 9 candidates
        monkeypatch.setattr(pieces, "_PIECE_BYTES", bytes_at_once)
        assert choose(name, **how, workers=Backwards()) == once


@pytest.mark.parametrize("name", CHOICES)
@pytest.mark.parametrize("limit", [("_SCORES_AT_ONCE", 60), ("_SLAB_BYTES", 48 * 7)])
def test_slabs_of_a_piece_change_nothing(name, limit, monkeypatch):
    once = choose(name)
    monkeypatch.setattr(pool_choice, *limit)
    assert choose(name) == once


def test_another_seed_or_pool_chooses_others(monkeypatch):
    monkeypatch.setattr(pieces, "_PIECE_BYTES", 48 * 57)
    assert choose("top-k") != choose("top-k", pool=POOL[::-1].copy())


SCORES = np.array([3, 0, 7, 7, 5, -9, 6])
WIDTH = 2.5


def drawn(scored, noise, scale=WIDTH):
    return int(choose_candidates(scored, lambda bins: noise.best_set(bins, 1, scale), scale, 1, noise)[0, 0])


def test_every_cut_of_a_small_pool_leads_to_the_same_choice(monkeypatch):
    """Given the same bits: there is one choice for each seed, whatever the pieces."""
    cut = pool_choice.pieces_of
    for seed in range(3):
        whole = drawn(ScoreTable(SCORES[:, None]), SeededNoise(seed))
        for cuts in range(len(SCORES)):
            for ends in combinations(range(1, len(SCORES)), cuts):
                slices = [slice(*ends) for ends in zip((0, *ends), (*ends, len(SCORES)), strict=True)]
                monkeypatch.setattr(pool_choice, "pieces_of", lambda *_, slices=slices: slices)
                assert drawn(ScoreTable(SCORES[:, None]), SeededNoise(seed)) == whole
        monkeypatch.setattr(pool_choice, "pieces_of", cut)


class Changing:
    """Scores that are others when they are asked for again."""

    classes, bytes_each, workers, at_hand = 1, 8, ThisProcess(), ThisProcess()

    def __init__(self):
        self.asked = 0

    def __len__(self):
        return 3

    def scores(self, piece):
        self.asked += 1
        return np.array([[5], [6], [7]]) if self.asked == 1 else np.array([[10**9], [0], [10**6]])

    def only(self, wanted):
        return self

    def require_unchanged(self):
        pass


def test_a_pool_that_changes_between_the_passes_is_noticed():
    with pytest.raises(DataError, match="must stay"):
        drawn(Changing(), SeededNoise(0))


def test_a_pool_is_mapped_where_it_is_read():
    pool = PublicEmbeddings(POOL)
    features = PublicMap(axes=3).fit(6, pool)
    view = GridPool(features, pool.rows, "float16")
    whole = features.lattice(POOL, 2047)
    assert view.shape == (100, 3)
    assert (view[10:20] == whole[10:20]).all()
    assert (view[np.array([99, 0])] == whole[[99, 0]]).all()


def test_bytes_on_the_grid_are_taken_as_they_are(tmp_path):
    stored = UnitNorm().fit(6, None).lattice(POOL, 127).astype(np.int8)
    stored[3:5] = 127, 0, 0, 0, 0, 0
    stored[3, 1] = 1  # longer than the norm by a hair
    np.save(tmp_path / "pool.npy", stored)
    features, rows = UnitNorm().fit(6, None), ShardedRows([tmp_path / "pool.npy"])
    view = GridPool(features, rows, "int8")
    assert (view[:] == stored).all()
    assert (view[np.array([3, 5])] == stored[[3, 5]]).all()
    other = GridPool(features, rows, "float16")
    assert (other[:] == features.lattice(stored.astype(np.float32), 2047)).all()


@pytest.mark.parametrize("people", [None, PEOPLE])
def test_without_caps_a_stored_row_that_is_too_long_is_scored_as_zeros(people, tmp_path):
    stored = UnitNorm().fit(6, None).lattice(POOL, 127).astype(np.int8)
    stored[3:6] = 127, 0, 0, 0, 0, 0
    stored[3, 1] = 1  # longer than the norm by a hair
    stored[5] = -128
    np.save(tmp_path / "pool.npy", stored)
    features = UnitNorm().fit(6, None)
    bound = Bound(Unit.ROW) if people is None else Bound(Unit.PERSON, 2.0)

    def scores(candidates):
        return SimilarityScores(features, candidates, 4, precision="int8", bound=bound)(ROWS, LABELS, people)

    found = scores(GridPool(features, ShardedRows([tmp_path / "pool.npy"]), "int8"))
    assert (found[3] != found[4]).any()
    stored[[3, 5]] = 0
    assert (found == scores(stored)).all()


def test_how_looking_up_goes_is_told_to_nobody(monkeypatch):
    """Which pieces are looked into, and how often, is private; how many are counted is not."""
    monkeypatch.setattr(pieces, "_PIECE_BYTES", 8)
    heard, asked = [], []

    class Watched(ThisProcess):
        def each(self, work, todo, what):
            asked.append(len(todo))
            return super().each(work, todo, what)

    with reported_to(lambda *told: heard.append(told)):
        drawn(ScoreTable(SCORES[:, None], Watched()), SeededNoise(0))
    assert len(asked) > 1
    assert heard == [(number + 1, len(SCORES), "piece of the public pool") for number in range(len(SCORES))]


@dataclass(frozen=True)
class FailsAtLast(ThisProcess):
    """Whoever looks up finds a file that is gone, and says which."""

    def each(self, work, todo, what):
        if isinstance(work, pool_choice._Finding):
            raise DataError("'part-003.npy': the file must be readable; it is not.")
        return super().each(work, todo, what)


def test_no_message_tells_in_which_file_a_choice_was_looked_up():
    with pytest.raises(DataError, match="charge stands") as told:
        drawn(ScoreTable(SCORES[:, None], FailsAtLast()), SeededNoise(0))
    assert "part-003" not in str(told.value)
    assert told.value.__cause__ is None
    assert told.value.__suppress_context__


@pytest.mark.parametrize("changed", range(3))
def test_a_file_that_changes_after_the_count_is_noticed_whatever_is_chosen(changed, tmp_path):
    files = [tmp_path / f"part-{number}.npy" for number in range(3)]
    for file, part in zip(files, np.array_split(POOL, 3), strict=True):
        np.save(file, part)

    class Meddler(ThisProcess):
        def each(self, work, todo, what):
            yield from super().each(work, todo, what)
            np.save(files[changed], np.zeros((40, 6), dtype=np.float32))

    with pytest.raises(DataError, match=f"part-{changed}.*changed"):
        choose("exponential", pool=ShardedRows(files), workers=Meddler())


def test_a_file_that_changes_while_every_candidate_gets_its_noise_is_noticed(tmp_path):
    files = [tmp_path / f"part-{number}.npy" for number in range(3)]
    for file, part in zip(files, np.array_split(POOL, 3), strict=True):
        np.save(file, part)

    def meddle(done, *_):
        np.save(files[0], np.zeros((40, 6), dtype=np.float32))

    with pytest.raises(DataError, match=r"part-0.*changed"), reported_to(meddle):
        choose("laplace", pool=ShardedRows(files))


@pytest.mark.parametrize("caps", [(0.0, 2.0), (0.8, 1.3), (0.9, 2.0)])
@pytest.mark.parametrize("people", [None, PEOPLE, np.zeros(90, dtype=int)])
@pytest.mark.parametrize("precision", ["float16", "int8"])
def test_scores_of_one_class_are_its_column_of_all(caps, people, precision):
    """A person's rows lie in all classes, and count by how many they are in all; the last class is empty."""
    features = UnitNorm().fit(6, None)
    bound = Bound(Unit.ROW) if people is None else Bound(Unit.PERSON, 2.0)
    query = SimilarityScores(
        features, GridPool(features, POOL, precision), 4, *caps, precision=precision, bound=bound
    )
    whole = query(ROWS, LABELS, people)
    scored = query.pool_scores(ROWS, LABELS, people)
    for own in range(4):
        assert (scored.only([own]).scores(slice(13, 77))[:, 0] == whole[13:77, own]).all()
    assert (scored.only([0, 2, 3]).scores(slice(13, 77)) == whole[13:77, [0, 2, 3]]).all()
    assert not whole[:, 3].any()
    assert whole[:, :3].any()


@pytest.mark.parametrize(
    ("classes", "size", "most"),
    [(1, 1, 1024), (100, 1, 655), (1000, 1, 65), (10**5, 1, 16), (100, 64, 655), (100, 640, 65)],
)
def test_more_classes_and_large_sets_make_fewer_pieces(classes, size, most, monkeypatch):
    monkeypatch.setattr(pieces, "_PIECE_BYTES", 1)
    scored = ScoreTable(np.broadcast_to(np.int64(0), (5_000, classes)))
    assert most // 2 < len(pool_choice.choice_pieces(scored, size)) <= most


def test_with_caps_no_candidate_however_long_gets_more_from_a_row_than_the_range(tmp_path):
    stored = np.full((4, 6), 127, dtype=np.int8)
    np.save(tmp_path / "pool.npy", stored)
    features = UnitNorm().fit(6, None)
    pool = GridPool(features, ShardedRows([tmp_path / "pool.npy"]), "int8")
    query = SimilarityScores(features, pool, 1, 0.8, 1.3, "int8")
    near = np.ones((3, 6))
    assert (query(near, np.zeros(3, dtype=np.int64)) == 3 * query.score_range).all()
    assert (query(-near, np.zeros(3, dtype=np.int64)) == 0).all()
    rounded_away = SimilarityScores(features, pool, 1, 1e-9, precision="int8")
    assert (rounded_away(near, np.zeros(3, dtype=np.int64)) == 3 * 127**2).all()
