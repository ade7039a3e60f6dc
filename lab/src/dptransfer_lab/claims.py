"""What a paper claims, as a table of a study; `dptransfer_lab.verdicts` checks it on results.

A claim is a table of a study:

    [[claim]]
    text = "Public prototypes beat linear probing in imbalanced settings at small ε."
    source = "Wahdany et al. (2025), Section 5.1"
    kind = "above"                    # above, below, close, rises, falls, best-k-rises, boost-falls
    left = "public prototypes"        # labels; of several the best one counts
    right = "linear probing"
    where = { imbalance = [10, 100], epsilon_max = 1 }

"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from pydantic import ValidationError

from dptransfer.errors import DataError
from dptransfer_lab.study import Only, Part, Words

if TYPE_CHECKING:
    import pandas as pd

_Entry = TypeVar("_Entry", bound=Part)

Kind = Literal["above", "below", "close", "rises", "falls", "best-k-rises", "boost-falls"]


class Where(Only):
    """Which cells a claim is about; empty means all."""

    relation: Words = ()
    epsilon_min: float = 0.0
    epsilon_max: float = float("inf")

    def of(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Those of these cells, which `placed` has put on the axis in ε."""
        room = 1e-9  # a budget in ρ or μ stands at a computed ε
        inside = frame["at_epsilon"].between(self.epsilon_min * (1 - room), self.epsilon_max * (1 + room))
        for name in (*Only.model_fields, "relation"):
            if allowed := getattr(self, name):
                inside &= frame[name].isin(allowed)
        return frame[inside]


class Claim(Part):
    """One claim.

    Attributes:
        text: the claim, in words.
        source: where it is printed.
        kind: how it is tested: 'above' and 'below' compare left and right; 'close' asks for a small
            difference; 'rises' and 'falls' compare the ends of `axis` for left; 'best-k-rises' and
            'boost-falls' are about the best number of prototypes and the performance boost.
        left: labels, or whatever `compare` names.
        right: what left is compared with.
        compare: what left and right name: 'label', or a factor such as 'pool'.
        axis: what rises: 'epsilon', or a factor such as 'pool_rows'.
        metric: which number; a metric or a cost.
        tolerance: for 'close', how far apart two means may be.
        share: which share of the cells must agree.
        where: which cells it is about.
    """

    text: str
    source: str
    kind: Kind
    left: Words
    right: Words = ()
    compare: str = "label"
    axis: str = "epsilon"
    metric: str = "balanced_accuracy"
    tolerance: float = 0.01
    share: float = 0.75
    where: Where = Where()


def entries_of(study: Mapping[str, Any], table: str, model: type[_Entry]) -> list[_Entry]:
    """A resolved study's tables of that name, read and checked."""
    found = []
    for place, fields in enumerate(study.get(table, ())):
        try:
            found.append(model.model_validate(fields))
        except ValidationError as problem:
            first = problem.errors(include_url=False)[0]
            at = ".".join(map(str, first["loc"]))
            raise DataError(
                f"{table.capitalize()} {place + 1} of the study cannot be read; at {at}: {first['msg']}."
            ) from None
    return found
