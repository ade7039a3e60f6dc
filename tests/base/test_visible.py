import pytest

from dptransfer.base.document import one_line, visible


@pytest.mark.parametrize("hidden", ["\x1b", "\u202e", "\u2066", "\ufeff", "\x00", "\u200b", "\ud800"])
def test_what_nobody_would_see_is_shown_as_a_mark(hidden):
    assert one_line(f"a{hidden}b") == "a\ufffdb"


def test_lines_become_one_and_joiners_stay():
    assert one_line(" two\n\tlines\r\n") == "two lines"
    assert one_line("na\u200cme") == "na\u200cme"
    assert visible("  two  spaces") == "  two  spaces"
