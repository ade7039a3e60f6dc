import pkgutil
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import dptransfer
from dptransfer.base.lazy_exports import lazy_exports

ROOT = Path(dptransfer.__file__).parent
WITH_STUBS = sorted(
    ".".join(("dptransfer", *path.relative_to(ROOT).with_suffix("").parts)).removesuffix(".__init__")
    for path in ROOT.rglob("*.pyi")
)


def test_every_package_with_public_names_has_a_stub():
    packages = {f"dptransfer.{one.name}" for one in pkgutil.iter_modules(dptransfer.__path__) if one.ispkg}
    assert packages - set(WITH_STUBS) == {"dptransfer.api", "dptransfer.base", "dptransfer.exact"}


@pytest.mark.parametrize("name", WITH_STUBS)
def test_every_name_of_a_stub_is_there(name):
    module = import_module(name)
    assert set(dir(module)) - set(module.__all__) <= {"__version__"}
    assert module.__all__ == sorted(set(module.__all__))
    for exported in dir(module):
        assert getattr(module, exported) is not None
    with pytest.raises(AttributeError, match="nonsense"):
        module.nonsense  # noqa: B018


@pytest.mark.parametrize("name", WITH_STUBS)
def test_no_exported_name_is_that_of_a_file_of_the_package(name):
    """The file, once imported, would take the name's place."""
    module = import_module(name)
    files = {one.name for one in pkgutil.iter_modules(getattr(module, "__path__", ()))}
    taken = files & set(dir(module))
    assert all(getattr(module, one) is import_module(f"{name}.{one}") for one in taken)


def test_a_star_import_brings_the_public_names():
    found = {}
    exec("from dptransfer.extensions import *", found)
    assert set(dptransfer.extensions.__all__) <= found.keys()


def test_a_stub_exports_what_it_imports_also_under_another_name(tmp_path, monkeypatch):
    (tmp_path / "beside").mkdir()
    (tmp_path / "beside" / "__init__.py").touch()
    (tmp_path / "beside" / "__init__.pyi").write_text(
        "from math import pi as pi\nfrom math import tau\nfrom beside import inner as inner\nturn = tau\n"
    )
    (tmp_path / "beside" / "inner.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    find, names = lazy_exports("beside")
    assert names() == find("__all__") == ["inner", "pi", "turn"]
    pi = import_module("math").pi
    assert (find("pi"), find("turn"), find("inner").__name__) == (pi, 2 * pi, "beside.inner")
    with pytest.raises(AttributeError):
        find("tau")


def test_the_public_names_are_importable_from_the_top():
    """What most programs use; what names columns, images or worker pools is in its module."""
    promised = """
        fit plan check encode load verify evaluate
        Source Fit PrivateEmbeddings PublicEmbeddings Budget Relation Unit Guarantee Ledger PrivateClassifier
        SecureNoise SeededNoise Auto
        methods encoders features privacy accounting errors testing
    """.split()
    assert set(promised) == set(dptransfer.__all__) - {"__version__"}


def test_the_top_imports_nothing_before_it_is_used():
    code = "import sys, dptransfer.extensions; print({'numpy', 'ast', 'dataclasses'} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "set()\n"
