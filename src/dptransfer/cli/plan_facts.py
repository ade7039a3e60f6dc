"""The facts that a plan is made for, with stand-ins for those that do not change what it costs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from dptransfer.cli.declared import class_list, class_sizes
from dptransfer.errors import ArgumentError

if TYPE_CHECKING:
    from dptransfer.data import Facts, PublicEmbeddings
    from dptransfer.methods import PrivateMethod

_CLASSES, _WIDTH = 10, 1280


@dataclass(frozen=True)
class PlanFacts:
    """Facts, and the names of those that were assumed."""

    facts: Facts
    assumed: tuple[str, ...]

    @property
    def note(self) -> str:
        """What was assumed, for the reader of the plan."""
        amounts = {
            "classes": f"{len(self.facts.classes)} classes",
            "dimension": f"{self.facts.dimension} dimensions",
        }
        shown = " and ".join(amounts[name] for name in self.assumed)
        return (
            f"Stand-ins: {shown}, as none were given. They decide nothing but the cost of the integer grid, "
            "the events' numeric_epsilon and numeric_delta."
        )


def facts_for_plan(
    method: PrivateMethod,
    public: PublicEmbeddings | None,
    *,
    classes: str | None,
    width: int | None,
    size: int | None,
    class_counts: str | None,
) -> PlanFacts:
    """What is declared, else what public rows show, else a stand-in where the plan does not need it."""
    from dptransfer.data import Facts
    from dptransfer.data.embeddings import declared_classes

    counts = class_sizes(class_counts)
    shots = None if public is None else public.shots
    assumed = []
    if classes is not None:
        names = declared_classes(class_list(classes))
    elif counts is not None:
        names = tuple(range(len(counts)))
    elif shots is not None and shots.classes is not None:
        names = shots.classes
    elif method.plans_by_facts:
        raise ArgumentError(
            f"A plan of '{method.name}' needs the declared classes; none were given. Example: --classes 10"
        )
    else:
        names = tuple(range(_CLASSES))
        assumed.append("classes")
    if width is None and public is not None:
        width = public.dimension
    if width is None and method.plans_by_facts:
        raise ArgumentError(
            f"A plan of '{method.name}' needs the width of the rows; none was given. "
            "Pass --dim 1280, or --public pool.emb."
        )
    if width is None:
        width = _WIDTH
        assumed.append("dimension")
    facts = Facts(classes=names, shape=(width,), size=size, class_counts=counts)
    return PlanFacts(facts, tuple(assumed))
