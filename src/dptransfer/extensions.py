"""Names for authors of plug-ins: methods, encoders, queries, events and readers are written with these.

They stay where they are for as long as this module lists them; whatever is imported from elsewhere may move.
`dptransfer.testing` has the checks that a plug-in must pass. Names are imported when they are first used.
"""

from dptransfer.base.lazy_exports import lazy_exports

__getattr__, __dir__ = lazy_exports(__name__)
