from hypothesis import given, settings
from hypothesis import strategies as st

from dptransfer.ledger.entry import Row, first_break, head_of, link, seal_tail

KEY = b"k" * 32
bodies = st.lists(st.text(alphabet=st.characters(codec="utf-8"), max_size=20), min_size=1, max_size=6)


def chained(texts, key=KEY):
    rows = []
    for text in texts:
        rows.append(Row(len(rows) + 1, text, link(key, head_of(key, rows), text)))
    return rows, seal_tail(key, len(rows), head_of(key, rows))


@settings(deadline=None)
@given(bodies)
def test_an_untouched_chain_holds_and_only_under_its_own_key(texts):
    rows, tail = chained(texts)
    assert first_break(KEY, rows, tail) is None
    assert first_break(b"another key", rows, tail) is not None
    assert chained(texts, b"another key")[0][-1].hash != rows[-1].hash


@settings(deadline=None)
@given(bodies, st.data())
def test_every_single_edit_deletion_and_swap_breaks_the_chain(texts, data):
    rows, tail = chained(texts)
    place = data.draw(st.integers(0, len(rows) - 1))
    changed = data.draw(st.text(max_size=20).filter(lambda text: text != rows[place].body))
    edited = [*rows]
    edited[place] = rows[place]._replace(body=changed)
    assert first_break(KEY, edited, tail) is not None
    fewer = [row for row in rows if row.number != place + 1]
    renumbered = [row._replace(number=number) for number, row in enumerate(fewer, start=1)]
    assert first_break(KEY, fewer, tail) is not None
    assert first_break(KEY, renumbered, tail) is not None
    other = data.draw(st.integers(0, len(rows) - 1))
    if other != place:
        swapped = [*rows]
        swapped[place] = rows[place]._replace(body=rows[other].body, hash=rows[other].hash)
        swapped[other] = rows[other]._replace(body=rows[place].body, hash=rows[place].hash)
        assert first_break(KEY, swapped, tail) is not None
    assert first_break(KEY, rows, seal_tail(b"another key", len(rows), rows[-1].hash)) is not None


def test_a_shorter_chain_needs_a_new_seal():
    rows, tail = chained(["a", "b", "c"])
    count, head, seal = tail.split(":")
    assert (count, head) == ("3", rows[-1].hash)
    assert first_break(KEY, rows[:2], f"2:{rows[1].hash}:{seal}") is not None
    assert first_break(KEY, rows[:2], seal_tail(KEY, 2, rows[1].hash)) is None
