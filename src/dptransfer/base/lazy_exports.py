"""Lazy exports: a module lists its public names in a stub, and each is imported when it is first used.

This is `lazy_loader.attach_stub`. Type checkers read the same stub, so each name is written once. A module
that has a stub defines nothing itself, because type checkers would not look into it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib import import_module


def lazy_exports(module: str) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """The functions `__getattr__` and `__dir__` of a module, from the stub beside it.

    In the stub a line `from a.b import c as c` exports `a.b.c`, and `d = c` gives it another name; it has no
    other lines, and is read when a name is first used. `__all__` has the names without a leading underscore.
    """

    @cache
    def places() -> dict[str, tuple[str, str]]:
        import pkgutil
        import re

        package, _, file = module.rpartition(".")
        if "__path__" in vars(import_module(module)):
            package, file = module, "__init__"
        stub = (pkgutil.get_data(package, f"{file}.pyi") or b"").decode()
        imported = re.findall(r"^from (\S+) import (\w+)", stub, re.MULTILINE)
        found = {name: (home, name) for home, name in imported}
        for other, name in re.findall(r"^(\w+) = (\w+)$", stub, re.MULTILINE):
            found[other] = found.pop(name)
        return found

    def find(name: str) -> object:
        if name == "__all__":
            return sorted(one for one in places() if not one.startswith("_"))
        if name not in places():
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        home, own = places()[name]
        return import_module(f"{home}.{own}") if home == module else getattr(import_module(home), own)

    return find, lambda: sorted(places())
