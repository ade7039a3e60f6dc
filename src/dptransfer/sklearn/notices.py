"""What the guarantee does not cover around a fit: fixed texts, each told once per process."""

from __future__ import annotations

import warnings
from contextvars import ContextVar
from functools import cache

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

checked_front: ContextVar[bool] = ContextVar("checked_front", default=False)
"""Whether the fit that is going on stands in a pipeline whose steps were checked."""


@cache  # scikit-learn resets Python's own record of what was shown, in every fold
def warn_once(text: str) -> None:
    """Tell it, the first time in this process; under a filter that makes errors of warnings, every time."""
    warnings.warn(text, PrivacyWarning, stacklevel=3)
