"""The laboratory stands on the library's public names alone, and nothing NOT PRIVATE is in the library."""

import ast
from importlib import import_module
from pathlib import Path

import pytest

import dptransfer
import dptransfer_lab

LABORATORY = Path(dptransfer_lab.__file__).parent
LIBRARY = Path(dptransfer.__file__).parent
MODULES = {  # modules that are public as they are
    "dptransfer.data.atomic_files",
    "dptransfer.errors",
    "dptransfer.methods.configuration",
    "dptransfer.methods.about",
    "dptransfer.methods.surrogate",
    "dptransfer.base.ray_workers",
    "dptransfer.base.worker_env",
    "dptransfer.base.workers",
}


def imported(file):
    """(module, name) of everything a file imports from the library."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from ((alias.name, None) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            yield from ((node.module, alias.name) for alias in node.names)


def is_public(module, name):
    if module.split(".")[0] != "dptransfer" or (module, name) == ("dptransfer", None):
        return True
    if name is None or name.startswith("_"):
        return (module, name) == ("dptransfer", "__version__")
    if module == "dptransfer" and (LIBRARY / name / "__init__.py").is_file():
        return True  # a package of the library's; what is used of it is not seen here
    if module in MODULES:
        return getattr(getattr(import_module(module), name), "__module__", module) == module
    if module in {"dptransfer.base.types", "dptransfer.base.document"}:
        return True  # names of types; blocks of a document
    package = import_module(".".join(module.split(".")[:2]))
    if name not in getattr(package, "__all__", ()):
        package = import_module("dptransfer.features")  # what `dptransfer.exact` has for everybody
    return name in package.__all__ and getattr(package, name) is getattr(import_module(module), name)


@pytest.mark.parametrize("file", sorted(LABORATORY.rglob("*.py")), ids=lambda file: file.stem)
def test_only_public_names_of_the_library_are_used(file):
    assert [one for one in imported(file) if not is_public(*one)] == []


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("dptransfer.data.resumable", "remove_draft"),
        ("dptransfer.data", "_hidden"),
        ("dptransfer", "_check"),
        ("dptransfer.methods.configuration", "Any"),
        ("dptransfer.release.evaluation", None),
    ],
)
def test_what_is_not_public_would_be_noticed(module, name):
    assert not is_public(module, name)


def test_no_mechanism_without_a_guarantee_is_in_the_library():
    """The wheel of the library is its package folder: see [tool.hatch.build.targets.wheel]."""
    marked = {
        folder: {
            file.relative_to(folder).as_posix()
            for file in folder.rglob("*.py")
            if "NOT PRIVATE" in (ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or "")
        }
        for folder in (LABORATORY, LIBRARY)
    }
    assert {"as_published.py", "unprotected.py"} <= marked[LABORATORY]
    assert marked[LIBRARY] == set()
    assert not [file for file in LIBRARY.rglob("*.py") if "as-published" in file.read_text(encoding="utf-8")]


def test_the_library_does_not_know_the_laboratory():
    found = {module for file in LIBRARY.rglob("*.py") for module, _ in imported(file)}
    assert not {module for module in found if module.split(".")[0] == "dptransfer_lab"}
