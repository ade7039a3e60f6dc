"""Checks for authors of plug-ins: that a method, query, encoder, event or reader keeps the library's rules.

They are plain functions, and need no test framework: each raises `ContractBroken`, an AssertionError, with a
sentence on the rule that is broken and what was found.
"""

from dptransfer.testing.contract import ContractBroken
from dptransfer.testing.encoder_rules import ENCODER_CHECKS, check_encoder
from dptransfer.testing.event_rules import EVENT_CHECKS, check_event
from dptransfer.testing.method_rules import METHOD_CHECKS, check_method
from dptransfer.testing.query_rules import QUERY_CHECKS, check_query
from dptransfer.testing.reader_rules import READER_CHECKS, check_reader

__all__ = [
    "ENCODER_CHECKS",
    "EVENT_CHECKS",
    "METHOD_CHECKS",
    "QUERY_CHECKS",
    "READER_CHECKS",
    "ContractBroken",
    "check_encoder",
    "check_event",
    "check_method",
    "check_query",
    "check_reader",
]
