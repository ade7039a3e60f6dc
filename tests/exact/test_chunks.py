import threading

import pytest

from dptransfer.exact import chunks
from dptransfer.exact.chunks import in_cache, over_chunks


@pytest.mark.parametrize("elements", [1, 7, 2**18])
@pytest.mark.parametrize(("count", "dimension"), [(0, 5), (1, 5), (41, 6), (41, 0), (3, 10**6)])
def test_the_chunks_are_all_rows_once_and_in_order(monkeypatch, elements, count, dimension):
    monkeypatch.setattr(chunks, "_CHUNK_ELEMENTS", elements)
    parts = list(over_chunks(lambda chunk: chunk, count, dimension))
    assert [row for part in parts for row in range(count)[part]] == list(range(count))
    assert all(part.stop > part.start for part in parts)


@pytest.mark.parametrize("cores", [1, 2, 5])
def test_results_come_in_order_on_any_number_of_cores(monkeypatch, cores):
    monkeypatch.setattr(chunks, "usable_cores", lambda: cores)
    monkeypatch.setattr(chunks, "_CHUNK_ELEMENTS", 10)
    seen = set()

    def work(chunk):
        seen.add(threading.get_ident())
        return chunk.start

    assert list(over_chunks(work, 100, 5)) == list(range(0, 100, 2))
    assert len(seen) <= cores
    assert (threading.get_ident() in seen) == (cores == 1)


@pytest.mark.parametrize("cores", [1, 3])
def test_an_error_in_a_chunk_is_raised(monkeypatch, cores):
    monkeypatch.setattr(chunks, "usable_cores", lambda: cores)
    monkeypatch.setattr(chunks, "_CHUNK_ELEMENTS", 10)

    def work(chunk):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        list(over_chunks(work, 100, 5))


@pytest.mark.parametrize(("count", "sizes"), [(6, {3}), (7, {4, 3}), (24, {4}), (11, {3, 2})])
def test_every_core_gets_its_share(monkeypatch, count, sizes):
    """Chunks hold at most five rows here; three full ones for two cores would keep one of them waiting."""
    monkeypatch.setattr(chunks, "usable_cores", lambda: 2)
    monkeypatch.setattr(chunks, "_CHUNK_ELEMENTS", 5)
    parts = list(over_chunks(lambda chunk: chunk, count, 1))
    assert [row for part in parts for row in range(count)[part]] == list(range(count))
    assert {part.stop - part.start for part in parts} <= sizes
    assert len(parts) % 2 == 0


@pytest.mark.parametrize(("count", "shares"), [(1, 1), (7, 1), (8, 2), (63, 2), (64, 2), (65, 4)])
def test_a_single_chunk_is_shared_too_if_that_is_worth_it(monkeypatch, count, shares):
    """Chunks hold at most 32 rows here, and fewer than four are not worth a thread."""
    monkeypatch.setattr(chunks, "usable_cores", lambda: 2)
    monkeypatch.setattr(chunks, "_CHUNK_ELEMENTS", 32)
    parts = list(over_chunks(lambda chunk: chunk, count, 1))
    assert [row for part in parts for row in range(count)[part]] == list(range(count))
    assert len(parts) == shares


@pytest.mark.parametrize(("elements", "most"), [(1, 1), (12, 2), (40, 6), (10**6, 41)])
def test_pieces_of_a_chunk_fit_the_cache_and_are_all_its_rows_once_and_in_order(monkeypatch, elements, most):
    monkeypatch.setattr(chunks, "_CHUNK_ELEMENTS", elements)
    parts = in_cache(slice(5, 46), 6)
    assert [row for part in parts for row in range(100)[part]] == list(range(5, 46))
    assert max(part.stop - part.start for part in parts) <= most
    assert len(parts) == -(-41 // most)
