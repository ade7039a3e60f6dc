import dataclasses
from itertools import pairwise

import dptransfer
import dptransfer_lab.cells
from dptransfer_lab.cells import cells_of
from dptransfer_lab.stored import Stored
from dptransfer_lab.study import parse_study

from .samples import PEOPLE, SMALL

STORED = {("data", "toy", "made"): Stored("d" * 64, {}), ("pool", "pool", "made"): Stored("p" * 64, {})}


def cells(text=SMALL, stored=STORED):
    return cells_of(parse_study(text), stored)


def test_every_combination_is_one_cell():
    found = cells()
    assert len(found) == 2 * 2 * 2 * 2  # seeds, ratios, budgets, methods
    assert len({cell.address for cell in found}) == len(found)


def test_cells_that_share_rows_stand_together():
    tasks = [cell.task for cell in cells()]
    changes = sum(first != second for first, second in pairwise(tasks))
    assert changes == len(set(tasks)) - 1
    assert [task.seed for task in tasks] == sorted(task.seed for task in tasks)


def test_the_address_is_what_determines_the_result():
    first = cells()[0]
    for names in (
        {"label": "another name"},
        {"oracle_tuned": True},
        {"study": "another", "study_digest": "0"},
    ):
        assert dataclasses.replace(first, **names).address == first.address
    other = [
        {"budget": {**first.budget, "epsilon": 0.6}}, {"settings": {**first.settings, "k": 2}},
        {"declare": "size"}, {"attack": False}, {"instance_loss": True}, {"unit": "person"},
        {"unit": "group"}, {"unit": "person", "person_bound": 2.0},
    ]  # fmt: skip
    tasks = [{"seed": 9}, {"data_fingerprint": "0"}, {"pool_fingerprint": None}, {"dimension": 3}]
    other += [{"task": dataclasses.replace(first.task, **change)} for change in tasks]
    found = {dataclasses.replace(first, **change).address for change in other}
    assert len({first.address, *found}) == len(other) + 1 == 13


def test_the_address_changes_with_the_version_of_the_library(monkeypatch):
    assert dptransfer_lab.cells.__version__ == dptransfer.__version__
    first = cells()[0]
    before = first.address
    monkeypatch.setattr("dptransfer_lab.cells.__version__", "99.0")
    assert first.address != before


def test_cells_from_before_people_keep_their_address(monkeypatch):
    """The hash was computed when a cell had no unit."""
    monkeypatch.setattr("dptransfer_lab.cells.__version__", "0.0")
    first = dataclasses.replace(cells()[0], settings={"k": 1})
    assert first.address == "74b95749772e7a5d8b05e071748b17f00cd67cb19cddfac0998e051aa360ddd5"


def test_each_unit_and_each_bound_of_a_person_is_a_cell_and_rows_have_no_bound():
    text = PEOPLE.replace('["row", "person"]', '["row", "person", "group"]\nperson_bound = [1, 4]')
    found = cells(text)
    assert {(cell.unit, cell.person_bound) for cell in found} == {
        ("row", 1.0), ("person", 1.0), ("person", 4.0), ("group", 1.0),
    }  # fmt: skip
    assert len(found) == 4 * 2 * 2 * 2  # units and bounds, seeds, budgets, methods
    only = cells(PEOPLE + 'only = { unit = "person" }\n')
    assert {cell.unit for cell in only if cell.method == "public"} == {"person"}
    assert {cell.unit for cell in only if cell.method == "mean"} == {"row", "person"}


def test_a_method_is_tried_where_it_is_wanted_only():
    only = SMALL + "only = { imbalance = 4, flavour = ['approximate'], data = 'toy' }\n"
    found = cells(only)
    assert {cell.task.imbalance for cell in found if cell.method == "public"} == {4.0}
    assert {cell.task.imbalance for cell in found if cell.method == "mean"} == {1.0, 4.0}
    assert not [cell for cell in cells(SMALL + "only = { flavour = 'pure' }\n") if cell.method == "public"]


def test_sizes_in_one_table_multiply_and_tables_add_up():
    tables = "[[size]]\nrows = [20, 40]\ndimension = [4, 8]\n[[size]]\nrows = 20\ndimension = 4\n[[size]]\n"
    sizes = {(cell.task.rows, cell.task.dimension) for cell in cells(SMALL + tables)}
    assert sizes == {(20, 4), (20, 8), (40, 4), (40, 8), (None, None)}
    assert len(cells(SMALL + tables)) == 5 * 16
