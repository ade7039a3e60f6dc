"""Checks for authors of plug-ins: that a method, query, encoder, event or reader keeps the library's rules.

They are plain functions, and need no test framework: each raises `ContractBroken`, an AssertionError, with a
sentence on the rule that is broken and what was found.
"""

from dptransfer.base.lazy_exports import lazy_exports

__getattr__, __dir__ = lazy_exports(__name__)
