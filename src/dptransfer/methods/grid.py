"""Every combination of listed settings, as configurations to choose among."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from dptransfer.errors import ArgumentError

if TYPE_CHECKING:
    from dptransfer.methods.base import PrivateMethod

_MOST = 100  # configurations: each is planned a dozen times before it is known what the best of them costs


def every_combination(
    make: Callable[[dict[str, Any]], PrivateMethod], lists: Mapping[str, Sequence[Any]], *, option: str = ""
) -> list[tuple[dict[str, Any], PrivateMethod]]:
    """Each combination of one value per setting, with the method that has it; two different ones at least.

    Args:
        make: the method with these settings.
        lists: the values to try, by setting.
        option: what stands before a setting where the user writes it, for messages.
    """
    for setting, values in lists.items():
        if isinstance(values, str) or not isinstance(values, Sequence) or not values:
            raise ArgumentError(
                f"A tuned setting must have a list of values; '{setting}' has {values!r}. "
                "List two values or more."
            )
    found: list[tuple[dict[str, Any], PrivateMethod]] = []
    for values in itertools.islice(itertools.product(*lists.values()), _MOST + 1):
        settings = dict(zip(lists, values, strict=True))
        try:
            method = make(settings)
        except ArgumentError as problem:
            tried = " ".join(f"{option}{setting}={value}" for setting, value in settings.items())
            raise ArgumentError(f"{tried}: {problem}") from problem
        if any(method == other for _, other in found):
            raise ArgumentError(
                "Tuning chooses among different configurations; two of these are the same. "
                "List every value once."
            )
        found.append((settings, method))
    if len(found) > _MOST:
        raise ArgumentError(
            f"Tuning tries at most {_MOST} configurations; these are more. List fewer values."
        )
    if len(found) < 2:
        raise ArgumentError(
            "Tuning chooses among two configurations at least; this is one. List two values or more."
        )
    return found
