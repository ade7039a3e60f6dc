"""Warnings about what the guarantee does not cover around a fit, once for each line that fits."""

from __future__ import annotations

import sys
import warnings
from contextvars import ContextVar
from types import FrameType

from dptransfer.errors import PrivacyWarning

FRONT = (
    "Steps in front of a private estimator that learn from rows, such as StandardScaler or PCA, are not "
    "covered by its guarantee. It cannot see whether there are any. Build the pipeline with "
    "make_private_pipeline, which refuses them, or state that there are none: "
    "warnings.filterwarnings('ignore', 'Steps in front')"
)
SCORES = (
    "Scores that cross-validation or a search computes on private rows are not covered by the guarantee, and "
    "neither is a choice made by them. This estimator was cloned to be fitted, as they do, and every fit is "
    "charged. Keep the scores to yourself, choose with PrivateSearch, or silence this: "
    "warnings.filterwarnings('ignore', 'Scores that cross-validation')"
)

_BETWEEN = frozenset(("dptransfer", "sklearn", "joblib", "imblearn"))  # the caller and a fit

checked_front: ContextVar[bool] = ContextVar("checked_front", default=False)
"""Whether the fit that is going on stands in a pipeline whose steps were checked."""


_Site = tuple[str, str, int]
_warned: set[_Site] = set()


def warn_at_call(text: str) -> None:
    """Warn once for each line of the caller's that fits, however many folds or clones that makes.

    That is what Python's default filter does, but scikit-learn resets Python's record in every fold. Under a
    filter that makes errors of warnings, every fit raises.
    """
    frame = sys._getframe(1)
    while frame.f_back is not None and _package(frame) in _BETWEEN:
        frame = frame.f_back
    site = text, frame.f_code.co_filename, frame.f_lineno
    if site not in _warned:
        warnings.warn_explicit(text, PrivacyWarning, *site[1:], module=frame.f_globals.get("__name__"))
        _warned.add(site)


def forget_warnings() -> None:
    """Let every line warn again."""
    _warned.clear()


def _package(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", "")).partition(".")[0]
