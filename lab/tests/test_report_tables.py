import re

from dptransfer_lab.figures.style import styles_of
from dptransfer_lab.report_tables import (
    accuracy_tables,
    cost_table,
    other_metrics,
    settings_table,
    shown,
    unfinished_table,
)
from dptransfer_lab.summary import over_seeds

from .synthetic import grid, record


def test_every_number_has_its_seeds_and_interval():
    records = grid(("mean", "public"), imbalance=[1.0, 10.0])
    (table,) = accuracy_tables(records, styles_of(records))
    assert table.header == ["ratio", "method", "ε = 0.1", "ε = 0.5", "ε = 1", "ε = 4"]
    assert [row[:2] for row in table.rows] == [[r, m] for r in ("1", "10") for m in ("mean", "public")]
    number = re.compile(r"^\d+\.\d \[-?\d+\.\d, \d+\.\d\] n=5$")
    assert all(number.match(cell) for row in table.rows for cell in row[2:])
    assert "95 % interval" in table.caption
    assert "Held fixed" in table.caption
    values = [r["metrics"]["balanced_accuracy"] for r in records[:10] if r["imbalance"] == 1.0]
    assert table.rows[0][2] == shown(over_seeds(values))


def test_a_missing_cell_is_a_dash_and_one_seed_has_no_interval():
    records = [record("mean", epsilon=1.0), record("public", epsilon=2.0)]
    (table,) = accuracy_tables(records, styles_of(records))
    assert [row.count("–") for row in table.rows] == [1, 1]
    assert all(cell.endswith("n=1") for row in table.rows for cell in row[1:] if cell != "–")


def test_marks_are_in_every_table():
    records = [
        *grid(("as-published-mean",), seeds=2),
        record("mean", oracle_tuned=True, status="refused", message="x"),
    ]
    styles = styles_of(records)
    tables = [*accuracy_tables(records, styles), *other_metrics(records, styles), cost_table(records, styles)]
    for table in tables:
        assert "as-published-mean [NOT PRIVATE]" in str(table.rows)
    assert "mean [oracle-tuned]" in str(unfinished_table(records, styles).rows)
    marks = {row[0]: row[3] for row in settings_table(records, styles).rows}
    assert marks == {"as-published-mean": "seeded, NOT PRIVATE", "mean": "oracle tuned, seeded"}


def test_what_was_not_measured_has_no_column():
    with_attack, without = (grid(("mean",), seeds=2, auc=auc) for auc in (0.5, None))
    first, second = (other_metrics(records, styles_of(records))[0] for records in (with_attack, without))
    assert first.header[-1] == "membership-attack AUC"
    assert len(second.header) == len(first.header) - 1
    assert all(len(row) == len(second.header) for row in second.rows)


def test_reasons_are_counted():
    records = [
        record(status="refused", message="no pool", epsilon=e, seed=s) for e in (1.0, 2.0) for s in range(3)
    ]
    records.append(record(status="failed", message="it broke"))
    rows = unfinished_table(records, styles_of(records)).rows
    assert [(row[0], row[3], row[4], row[5]) for row in rows] == [
        ("failed", "1", "it broke", "1"),
        ("refused", "1 to 2", "no pool", "6"),
    ]
    assert unfinished_table(grid(), styles_of(grid())) is None


def test_costs_are_medians_with_quartiles():
    records = [record(seed=s, seconds=t, mib=8.0) for s, t in enumerate((1.0, 2.0, 9.0))]
    (row,) = cost_table(records, styles_of(records)).rows
    assert row[3:] == ["2.000 [1.500, 5.500] n=3", "8.0 [8.0, 8.0] n=3", "10.0 [10.0, 10.0] n=3"]


def test_settings_are_told_in_full():
    records = [record("top-k", settings={"k": 5, "features": {"type": "UnitNorm", "pool": 1}})]
    (row,) = settings_table(records, styles_of(records)).rows
    assert row[2] == "k = 5, features = UnitNorm(pool 1)"
