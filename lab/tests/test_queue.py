import threading

from dptransfer_lab.queue import CellQueue

from .test_cells import cells


def drained(queue, last=None):
    found = []
    while (cell := queue.take(last)) is not None:
        found.append(cell)
        last = cell.task
        queue.done(cell)
    return found


def test_every_cell_comes_out_once():
    found = drained(CellQueue(cells()))
    assert sorted(cell.address for cell in found) == sorted(cell.address for cell in cells())


def test_a_worker_stays_with_its_rows_and_another_takes_other_rows():
    queue = CellQueue(cells())
    first = queue.take(None)
    second = queue.take(None)
    assert first.task != second.task
    assert queue.take(first.task).task == first.task


def test_nobody_is_idle_while_a_group_has_cells_left():
    first = cells()[0].task
    queue = CellQueue([cell for cell in cells() if cell.task == first])
    assert queue.take(None).task == queue.take(None).task == first


def test_a_cell_that_fails_comes_back_once():
    queue = CellQueue(cells()[:1])
    cell = queue.take(None)
    assert queue.again(cell)
    assert queue.take(None) is cell
    assert not queue.again(cell)
    queue.done(cell)
    assert queue.take(None) is None


def test_a_worker_waits_for_a_cell_that_may_come_back():
    queue = CellQueue(cells()[:1])
    cell = queue.take(None)
    taken = []
    other = threading.Thread(target=lambda: taken.append(queue.take(None)))
    other.start()
    other.join(0.05)
    assert other.is_alive()
    queue.again(cell)
    other.join(5)
    assert taken == [cell]


def test_a_closed_queue_lets_nobody_wait():
    queue = CellQueue(cells()[:1])
    queue.take(None)
    taken = []
    other = threading.Thread(target=lambda: taken.append(queue.take(None)))
    other.start()
    queue.close()
    other.join(5)
    assert taken == [None]
