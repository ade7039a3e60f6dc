"""What going through a pool will take: which passes, of how many bytes, and nothing for small pools."""

from dataclasses import replace

import numpy as np
import pytest

from dptransfer.base import workers as pieces
from dptransfer.base.workers import Processes
from dptransfer.data import Facts, PublicEmbeddings, ShardedRows
from dptransfer.exact.public_map import PublicMap
from dptransfer.methods import MeanPrototypes, PublicPriorPrototypes, PublicPrototypes, TopKPrototypes
from dptransfer.methods.prototypes import pool_sizing as module
from dptransfer.methods.prototypes.pool_sizing import pool_sizing
from dptransfer.privacy import Budget

WIDTH, ROWS = 8, 4000
FACTS = Facts(("a", "b", "c"), (WIDTH,), size=50)
BUDGET = Budget(epsilon=1.0, delta=1e-5)
UNCAPPED = PublicPrototypes(lowest=0.0, highest=2.0)


@pytest.fixture
def pool(tmp_path, monkeypatch):
    """Four thousand rows of int8 in two files, worked on in pieces of a hundred."""
    for number, part in enumerate(
        np.array_split(np.random.default_rng(0).integers(-40, 40, (ROWS, WIDTH)), 2)
    ):
        np.save(tmp_path / f"{number}.npy", part.astype(np.int8))
    monkeypatch.setattr(pieces, "_PIECE_BYTES", 100 * 8 * WIDTH)
    monkeypatch.setattr(module, "_LONG_ENOUGH", 0.001)
    return PublicEmbeddings(ShardedRows(sorted(tmp_path.glob("*.npy"))))


def passes(method, pool, facts=FACTS):
    return {one.name: one.reads for one in sized(method, facts, pool).passes}


def sized(method, facts, pool):
    return pool_sizing(method.plan(facts, BUDGET, pool), facts, pool)


def test_each_method_reads_what_it_needs(pool):
    whole = WIDTH * ROWS  # in the files, where a number is a byte
    assert passes(PublicPrototypes(), pool) == {
        "checking": whole,
        "scoring": whole,
        "looking up": 3 * 100 * WIDTH,  # a piece for each class
    }
    assert passes(PublicPriorPrototypes(), pool) == {"checking": whole, "public map": whole}
    mapped = passes(PublicPrototypes(features=PublicMap(axes=3)), pool)
    assert list(mapped) == ["checking", "public map", "scoring", "looking up"]
    assert passes(TopKPrototypes(k=5), pool)["looking up"] == 15 * 100 * WIDTH
    assert passes(PublicPrototypes(mechanism="laplace"), pool) == {"checking": whole, "scoring": whole}


def test_pieces_and_cores_are_those_of_whoever_works(pool):
    here = sized(PublicPrototypes(), FACTS, pool)
    assert (here.rows, here.pieces, here.processes) == (ROWS, 40, 1)
    one = sized(PublicPrototypes(), FACTS, pool.with_workers(Processes(1)))
    assert (one.processes, one.cores) == (2, 1)
    assert here.seconds == sum(each.seconds for each in here.passes) > 0
    assert here.memory > 2**24


def test_private_rows_are_as_many_as_are_declared(pool, monkeypatch):
    assert sized(PublicPrototypes(), FACTS, pool).private_rows == 50
    undeclared = replace(FACTS, size=None)
    assert sized(PublicPrototypes(), undeclared, pool).private_rows == module.PRIVATE_ROWS
    # Twice as many as are made up take twice as long where each is multiplied, and no longer where sums are.
    monkeypatch.setattr(module, "_MOST_MADE_UP", 25)
    for method, times in ((UNCAPPED, 1), (PublicPrototypes(), 2)):
        plan = method.plan(FACTS, BUDGET, pool)
        assert module._scoring(plan, method, FACTS, pool, 50)[1] == times


@pytest.mark.parametrize("method", [PublicPrototypes(), MeanPrototypes()])
def test_small_pools_stay_quiet(method, pool, monkeypatch):
    assert sized(method, FACTS, PublicEmbeddings(np.ones((ROWS, WIDTH)))) is None
    monkeypatch.undo()
    assert sized(method, FACTS, pool) is None
