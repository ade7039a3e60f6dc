"""Rows or pixels: whether training a network on private pictures is likely to beat a head on its rows.

Tasks made of public rows cannot tell, as they have no pixels. So it is a rule on what is declared, with what
was measured (docs/which-method.md): the noise of a step does not depend on the pictures, and its signal grows
with their number, so what counts is the pictures of a class over the noise on one sum of rows:

    pictures of a class ÷ noise         28    50    80    92   150   167   270   500 and more
    `film` less `public-prior`,
      CIFAR-10, even classes          −3.6  −2.0  +2.1  +3.0  +5.0  +5.2  +5.4  +5.1 to +6.2
      clothing, uneven ones                      −12.8        −7.7        −2.6  −1.5

With EfficientNet-Lite0 and δ = 1e-5; columns are rounded, and cells of one column averaged. Where classes are
even the border runs at 60, and where they are not it lies beyond 500: up to 150 the loss on one set is larger
than the gain on the other, and from 270 on it is smaller. 250 is the careful end of what lies between, as
training takes far longer than a head.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from dptransfer.accounting import mu_for
from dptransfer.data import Facts, PublicImages
from dptransfer.errors import ArgumentError
from dptransfer.methods.about import About
from dptransfer.methods.base import Outcome, Plan
from dptransfer.methods.image_method import ImageMethod
from dptransfer.privacy import Budget, Relation, Unit

MEASURED_WITH = "efficientnet-lite0"
"""The one encoder whose network the border was measured with."""
_BORDER = 250


def pixels_pay(facts: Facts, budget: Budget) -> tuple[bool, str]:
    """Whether `film` is to be expected ahead of a head on rows, and why, in words; from public facts alone.

    >>> ten = Facts(tuple(range(10)), shape=(224, 224, 3), size=10_000)
    >>> pixels_pay(ten, Budget(epsilon=1.0, delta=1e-5))[0]
    True
    >>> pixels_pay(ten, Budget(epsilon=0.1, delta=1e-5))[1]
    "a class has 33 times the noise of one sum, and 'film' was ahead from about 250 on"
    """
    if facts.unit is Unit.PERSON:
        return False, "'film', which trains on pixels, has not been tested with person-level privacy"
    if budget.flavour == "pure":
        return False, "'film', which trains on pixels, has Gaussian noise, which a pure budget does not allow"
    if facts.declared_size is None:
        return False, "whether 'film', which trains on pixels, does better depends on an undeclared size"
    signal = facts.declared_size / len(facts.classes) / _noise(budget)
    return signal >= _BORDER, (
        f"a class has {signal:.0f} times the noise of one sum, and 'film' was ahead from about {_BORDER} on"
    )


def _noise(budget: Budget) -> float:
    """Standard deviation of the noise on a sum of unit rows that has the whole budget to itself."""
    amount = budget.amount
    if budget.flavour == "gdp":
        mu = amount
    elif budget.flavour == "zcdp":
        mu = math.sqrt(2 * amount)
    else:
        mu = mu_for(amount, budget.delta)
    return (1 if budget.relation is Relation.ADD_REMOVE else 2) / mu


@dataclass(frozen=True)
class AutoOnPictures(ImageMethod):
    """`auto` for private pictures: `film` where it is to be expected ahead, and a plain error elsewhere.

    Releases:      what `film` releases.
    Guarantee:     that of `film`; the choice looks at declared facts alone and costs nothing.
    Relation:      the budget's.
    Sensitivity:   see `FiLM`.
    Assumes:       what `film` assumes.
    Reference:     docs/which-method.md has what the rule rests on.
    """

    name: ClassVar[str] = "auto"
    about: ClassVar[About] = About(summary="Trains a network where pictures are many beside the noise.")
    units: ClassVar[tuple[Unit, ...]] = (Unit.ROW, Unit.PERSON)
    plans_by_facts: ClassVar[bool] = True

    def plan(self, facts: Facts, budget: Budget, public: PublicImages | None = None) -> Plan:
        """The plan of `film`, with the reason."""
        from dptransfer.methods.film import FiLM

        pays, why = pixels_pay(facts, budget)
        if not pays:
            raise ArgumentError(
                f"Auto trains a network where that was measured to pay, and would take rows here: {why}. "
                "Encode the pictures, or name a method for pictures, such as 'film'."
            )
        made = FiLM(**vars(self)).plan(facts, budget, public)
        return replace(made, notes=(f"Auto chose 'film', which trains on pixels: {why}.", *made.notes))

    def run(self, *_: Any) -> Outcome:
        """The plan names the chosen method, and `fit` runs that one."""
        raise AssertionError("a plan made by Auto belongs to the method it chose")
