"""Look up plug-ins by name: the library's own, and those of installed packages (entry points).

Nothing is imported before it is asked for, so that names can be listed at once. A package that is broken
breaks nothing but what it adds: that is left out, and says why when somebody asks for it.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from dptransfer.errors import ArgumentError, DPTransferError, nearest

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

Found = TypeVar("Found")
_PLACE = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*")


def is_place(text: str) -> bool:
    """Whether a text says where to import something from.

    >>> is_place("package.module:Name"), is_place("top-k")
    (True, False)
    """
    return _PLACE.fullmatch(text) is not None


class Registry(Mapping[str, Found], Generic[Found]):
    """A read-only mapping from names to what they name.

    The library's own names stand in the package and not in its metadata, so that they are there in a source
    tree or an archive that was never installed; nobody else can take them.

    Args:
        what: one of them in words, such as 'method'.
        group: the entry points through which packages add some.
        own: places 'module:Name' of the library's own, by name, in the order in which they are listed.
        accepted: makes what is listed of an object that was found under a name; raises if it cannot.
        besides: what else a person may name.
    """

    def __init__(  # no dataclass: `import dptransfer` comes by here, and `dataclasses` takes half of its time
        self,
        what: str,
        group: str,
        own: Mapping[str, str],
        accepted: Callable[[str, Any], Found],
        besides: str = "package.module:Name",
    ) -> None:
        self.what, self.group, self.own, self.accepted, self.besides = what, group, own, accepted, besides

    @property
    def names(self) -> tuple[str, ...]:
        """All names, also of what may turn out broken; nothing is imported."""
        return (*self.own, *sorted(self._added().keys() - self.own.keys()))

    @property
    def problems(self) -> tuple[str, ...]:
        """What other packages add and cannot be used, a sentence each."""
        found = []
        for name, added in self._added().items():
            try:
                self._loaded(name, added)
            except ArgumentError as problem:
                found.append(str(problem))
        return tuple(found)

    def package(self, name: str) -> str | None:
        """The installed package that adds what has this name; None for the library's own, and for no name."""
        added = [] if name in self.own else self._added().get(name, [])
        return next((one.dist.name for one in added if one.dist is not None), None)

    def find(self, text: str) -> Found:
        """What a person named: one of these, or anything else by its place 'package.module:Name'.

        A place is imported, so a text that comes out of somebody else's file must not be looked up here.
        """
        if is_place(text):
            try:
                return self.accepted("", import_place(text))
            except DPTransferError:
                raise
            except Exception as problem:
                raise ArgumentError(
                    f"A {self.what} named by its place must be importable; '{text}' is not "
                    f"({_said(problem)}). Install its package, or put its folder on PYTHONPATH."
                ) from problem
        if text in self.own or text in self.names:  # what is installed is looked through for strangers only
            return self[text]
        known = f"one of {', '.join(self.names)}, or {self.besides}"
        remedy = nearest(text.lower().replace("_", "-"), self.names, "Choose one of these.", cutoff=0.5)
        raise ArgumentError(f"The {self.what} must be {known}; got '{text}'. {remedy}")

    def __getitem__(self, name: str) -> Found:
        if name in self.own:
            return self.accepted(name, import_place(self.own[name]))
        return self._loaded(name, self._added()[name])

    def __contains__(self, name: object) -> bool:
        try:
            return name in self.own or self[str(name)] is not None
        except (KeyError, ArgumentError):
            return False

    def __iter__(self) -> Iterator[str]:
        return (name for name in self.names if name in self)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __repr__(self) -> str:
        return f"<{self.what}s: {', '.join(self.names)}>"

    def _added(self) -> dict[str, list[EntryPoint]]:
        found: dict[str, list[EntryPoint]] = {}
        for one in _entry_points(self.group, path_now()):
            found.setdefault(one.name, []).append(one)
        return found

    def _loaded(self, name: str, added: list[EntryPoint]) -> Found:
        """What other packages add under this name; raises, in words, if it cannot be used."""
        sources = (f"{one.dist.name} {one.dist.version}" if one.dist else "unknown" for one in added)
        them = f"the {self.what} '{name}' of the package {' and '.join(sources)}"
        if name in self.own:
            raise ArgumentError(f"Names of this library cannot be taken; {them} has one. Rename it.")
        if len(added) > 1:
            raise ArgumentError(f"A name stands for one {self.what}; two packages add {them}. Uninstall one.")
        try:
            return self.accepted(name, added[0].load())
        except (Exception, SystemExit) as problem:
            raise ArgumentError(
                f"What a package adds must load; {them} does not ({_said(problem)}). Repair or uninstall it."
            ) from problem


def path_now() -> tuple[tuple[str, int], ...]:
    """The places that packages are found in, and when each was last written to.

    It is another when something was installed or removed, and takes a hundredth of the time to look.
    """
    return tuple((place, os.stat(place).st_mtime_ns) for place in sys.path if os.path.exists(place))


@lru_cache(maxsize=32)
def _entry_points(group: str, path: tuple[tuple[str, int], ...]) -> tuple[EntryPoint, ...]:
    """Those of what is installed on this path, read once: it takes ten milliseconds."""
    from importlib.metadata import entry_points

    return tuple(entry_points(group=group))


def import_place(place: str) -> object:
    """The object at 'package.module:Name'.

    >>> import_place("math:pi")
    3.141592653589793
    """
    module, _, name = place.partition(":")
    return getattr(import_module(module), name)


def _said(problem: BaseException) -> str:
    return " ".join(f"{type(problem).__name__}: {problem}".split()).rstrip(".")
