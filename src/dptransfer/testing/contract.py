"""The error that every check raises: a sentence on the broken rule and what was found."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import TypeVar

from dptransfer.errors import ArgumentError, nearest

Subject = TypeVar("Subject")


class ContractBroken(AssertionError):
    """A plug-in breaks a rule that the library's guarantees rest on."""


def require(holds: object, found: str) -> None:
    """Raise `ContractBroken` with what was found, unless the rule holds.

    A plain `assert` would be gone under `python -O`.
    """
    if not holds:
        raise ContractBroken(found)


@contextmanager
def require_refused(otherwise: str, *kinds: type[Exception]) -> Iterator[None]:
    """Raise `ContractBroken` with these words unless what is tried inside raises one of these errors."""
    try:
        yield
    except kinds:
        return
    raise ContractBroken(otherwise)


@contextmanager
def naming_rule(subject: str, rule: str) -> Iterator[None]:
    """Name the rule and the subject in whatever is raised inside, as a `ContractBroken`."""
    try:
        yield
    except Exception as problem:
        said = " ".join(str(problem).split()).rstrip(".") or "no more is known"
        found = said if isinstance(problem, ContractBroken) else f"{type(problem).__name__}: {said}"
        raise ContractBroken(f"{subject} breaks a rule: {rule}. Found: {found}.") from problem


def run_checks(
    subject: Subject, named: str, checks: Mapping[str, Callable[[Subject], None]], skip: Collection[str] = ()
) -> None:
    """Run every check but those to skip, in order; the first broken rule is raised."""
    for rule in skip:
        if rule not in checks:
            raise ArgumentError(
                f"skip must name rules of this check; '{rule}' is none. "
                f"{nearest(rule, checks, 'Choose among: ' + '; '.join(checks) + '.')}"
            )
    for rule, check in checks.items():
        if rule not in skip:
            with naming_rule(named, rule):
                check(subject)
