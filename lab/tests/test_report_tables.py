import re

from dptransfer_lab.figures.style import styles_of
from dptransfer_lab.points import place_cells
from dptransfer_lab.report_tables import (
    accuracy_tables,
    cost_table,
    excess_table,
    format_mean,
    loss_section,
    other_metrics,
    printed_section,
    settings_table,
    unfinished_table,
)
from dptransfer_lab.results import frame_of
from dptransfer_lab.statistics import mean_of

from .synthetic import cells, grid, measured_losses, record


def made(table, records, **more):
    frame = cells(records)
    return table(frame, styles_of(frame), **more)


def whole(table, records):
    frame = place_cells(frame_of(records))
    return table(frame, styles_of(frame))


def test_every_number_has_its_interval_and_the_caption_its_seeds():
    records = grid(("mean", "public"), imbalance=[1.0, 10.0])
    (table,) = made(accuracy_tables, records)
    assert table.header == ("ratio", "method", "ε = 0.1", "ε = 0.5", "ε = 1", "ε = 4")
    assert [row[:2] for row in table.rows] == [(r, m) for r in ("1", "10") for m in ("mean", "public")]
    number = re.compile(r"^\d+\.\d \[\d+\.\d, \d+\.\d\]$")
    assert all(number.match(cell) for row in table.rows for cell in row[2:])
    assert "95 % interval; 5 seeds per" in table.caption
    assert "Held fixed" in table.caption
    values = [r["metrics"]["balanced_accuracy"] for r in records[:10] if r["imbalance"] == 1.0]
    assert table.rows[0][2] == format_mean(mean_of(values))
    assert [table.right(column) for column in range(6)] == [False, False, True, True, True, True]


def test_the_best_is_marked_and_whoever_cannot_be_told_from_it():
    values = {"mean": (0.5, 0.6, 0.7), "public": (0.52, 0.621, 0.719), "top-k": (0.72, 0.51, 0.6)}
    values["as-published-mean"] = (0.99, 0.99, 0.99)
    records = [
        record(name, seed=s, balanced=one) for name, three in values.items() for s, one in enumerate(three)
    ]
    (table,) = made(accuracy_tables, records)
    names = [row[0] for row in table.rows]
    assert {names[row] for row, column in table.marked} == {"public", "top-k"}
    assert {column for _, column in table.marked} == {1}
    assert "Bold" in table.caption


def test_a_missing_cell_is_a_dash_and_one_seed_has_no_interval():
    (table,) = made(accuracy_tables, [record("mean", epsilon=1.0), record("public", epsilon=2.0)])
    assert [row.count("–") for row in table.rows] == [1, 1]
    assert all(re.fullmatch(r"\d+\.\d|–", cell) for row in table.rows for cell in row[1:])
    (table,) = made(accuracy_tables, [*grid(("mean",), seeds=3), *grid(("public",), seeds=1)])
    assert [row[1].rsplit(" ", 1)[1] for row in table.rows] == ["n=3", "n=1"]  # where seeds differ


def test_marks_are_in_every_table():
    records = [
        *grid(("as-published-mean",), seeds=2),
        record("mean", oracle_tuned=True, status="refused", message="x"),
    ]
    for table in (*made(accuracy_tables, records), *made(other_metrics, records), made(cost_table, records)):
        assert "mean [NOT PRIVATE]" in str(table.rows)
    assert "mean [oracle-tuned]" in str(whole(unfinished_table, records).rows)
    marks = {row[0]: row[3] for row in whole(settings_table, records).rows}
    assert marks == {"as-published-mean": "seeded, NOT PRIVATE", "mean": "oracle tuned, seeded"}


def test_reasons_are_counted():
    records = [
        record(status="refused", message="no pool", epsilon=e, seed=s) for e in (1.0, 2.0) for s in range(3)
    ]
    records.append(record(status="failed", message="it broke"))
    assert [(row[0], *row[3:]) for row in whole(unfinished_table, records).rows] == [
        ("failed", "1", "it broke", "1"),
        ("refused", "1 to 2", "no pool", "6"),
    ]
    assert whole(unfinished_table, grid()) is None


def test_costs_are_means_between_the_smallest_and_the_largest():
    records = [record(seed=s, seconds=t, mib=8.0) for s, t in enumerate((1.0, 2.0, 9.0))]
    (row,) = made(cost_table, records).rows
    assert row[3:] == ("4.000 [1.000, 9.000]", "8.0 [8.0, 8.0]", "10.0 [10.0, 10.0]")
    (row,) = made(cost_table, [record(mib=None)]).rows
    assert row[4] == "–"


def losses(**more):
    frame = cells(measured_losses(**more))
    return loss_section(frame, styles_of(frame)).blocks


def test_every_method_has_its_losses_beside_the_promise():
    warning, table = losses(epsilons=(1.0, 2.0))
    assert warning.tone == "bad"
    assert "not be published" in warning.text
    assert [row[:3] for row in table.rows] == [
        ("1", "mean", "1"), ("1", "adamix", "1"), ("2", "mean", "2"), ("2", "adamix", "2"),
    ]  # fmt: skip
    row = dict(zip(table.header, table.rows[2], strict=True))
    assert row["median"].startswith("0.95 [")
    assert row["largest"].startswith("1.90 [")
    assert float(row["largest"].split()[-1].strip("]")) <= 2.0  # nobody loses more than was promised
    assert row["small classes"].startswith("1.60 ")
    assert row["large classes"].startswith("0.40 ")
    assert row["below half of it, % of examples"] == "50 [50, 50]"
    _, table = losses(epsilons=(1.0,), class_rows=(10, 10, 10, 10))
    assert all(row[-2:] == ("–", "–") for row in table.rows)  # classes of one size
    assert loss_section(cells(grid(seeds=1)), {}) is None


def test_printed_mechanisms_are_told_with_claim_truth_and_audit():
    records = grid(("mean-estimation", "as-published-mean-estimation"), epsilons=(1.0,), seeds=1)
    table, why = printed_section(cells(records)).blocks
    (row,) = table.rows
    assert row[0] == "as-published-mean-estimation"
    assert row[2:4] == ("1", "5.15")
    assert 1 < float(row[4]) < 5.15
    assert row[5].startswith("NOT PRIVATE")
    assert "Theorem 2.1" in why.items[0]
    wasteful = printed_section(cells(grid(("as-published-noisy-gd",), epsilons=(1.0,), seeds=1)))
    assert wasteful.blocks[0].rows[0][-1].startswith("holds")
    assert printed_section(cells(grid(("mean",), seeds=1))) is None
    assert printed_section(cells(grid(("as-published-paragon",), seeds=1))) is None


def test_the_increase_of_the_error_is_a_mean_over_data_sets_against_the_paragon():
    errors = {
        "a": {"mean": 0.3, "as-published-paragon": 0.1},
        "b": {"mean": 0.2, "as-published-paragon": 0.1},
    }
    records = [
        record(name, data=data, epsilon=1.0, metrics={"accuracy": 1 - error})
        for data, both in errors.items()
        for name, error in both.items()
    ]
    table = made(excess_table, records)
    assert [row[1:] for row in table.rows] == [("mean", "+150")]
    assert made(excess_table, [record("mean")]) is None
