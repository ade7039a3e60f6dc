"""The library's own checks of methods (`dptransfer.testing`), under the names that tests use."""

from dptransfer.testing.method_rules import METHOD_CHECKS as CHECKS
from dptransfer.testing.sample_data import (
    CLASSES,
    POOL,
    ROWS,
    SIZE,
    WIDTH,
    budget_for,
    relations_of,
    without_sampling,
)
from dptransfer.testing.sample_data import CountedReads as Watched
from dptransfer.testing.sample_data import fit_sample as fitted
from dptransfer.testing.sample_data import fresh_rows as fresh
from dptransfer.testing.sample_data import is_same_release as same
from dptransfer.testing.sample_data import ordinary_rows as ordinary
from dptransfer.testing.sample_data import reads_in_order as in_their_order
from dptransfer.testing.sample_data import sample_data_for as world

private = ROWS.private
relations = relations_of
undrawn = without_sampling
__all__ = [
    "CHECKS",
    "CLASSES",
    "POOL",
    "SIZE",
    "WIDTH",
    "Watched",
    "budget_for",
    "fitted",
    "fresh",
    "in_their_order",
    "ordinary",
    "private",
    "relations",
    "same",
    "undrawn",
    "world",
]
