from dptransfer.ledger import Ledger
from dptransfer.privacy import Budget


def test_a_ledger_shows_each_data_set_with_what_is_spent_and_allowed():
    ledger = Ledger.in_memory()
    assert "Nothing is on record yet" in ledger._repr_html_()
    for number in range(25):
        ledger.set_budget(f"<clinic {number}>", Budget(epsilon=1.0))
    shown = ledger._repr_html_()
    assert "&lt;clinic 0&gt;" in shown
    assert "<clinic" not in shown
    assert "the budget is epsilon = 1" in shown
    assert "The first 20 of 25." in shown


def test_a_ledger_that_cannot_be_read_says_so_and_raises_nothing(tmp_path):
    path = tmp_path / "ledger.sqlite"
    ledger = Ledger(path)
    ledger.set_budget("clinic", Budget(epsilon=1.0))
    path.write_bytes(b"no ledger at all" * 100)
    shown = ledger._repr_html_()
    assert shown.startswith("<p>")
    assert "clinic" not in shown
