import ast
import importlib
import pkgutil
import types
from pathlib import Path

import pytest

import dptransfer

BELOW = [module.name for module in pkgutil.iter_modules(dptransfer.__path__) if module.ispkg]
PACKAGES = ["dptransfer", *(f"dptransfer.{name}" for name in sorted(BELOW))]


def public_names(module):
    """What a package really has: everything bound in it without an underscore, except modules."""
    present = {
        name
        for name, value in vars(module).items()
        if not name.startswith("_")
        and not isinstance(value, types.ModuleType)
        and name not in IMPORTED_FOR_USE
    }
    return present | getattr(module, "_PLACES", {}).keys()


IMPORTED_FOR_USE = {
    "annotations",
    "TYPE_CHECKING",
    "Any",
    "ArgumentError",
    "Registry",
    "imported",
}


@pytest.mark.parametrize("name", PACKAGES)
def test_all_is_what_is_there(name):
    module = importlib.import_module(name)
    if not hasattr(module, "__all__"):
        assert not public_names(module)
        return
    assert len(set(module.__all__)) == len(module.__all__)
    assert set(module.__all__) == public_names(module)
    for exported in module.__all__:
        assert getattr(module, exported) is not None


def test_a_name_that_is_missing_or_hidden_would_be_noticed():
    made = types.ModuleType("made")
    made.there, made.__all__ = 1, ["there"]
    assert set(made.__all__) == public_names(made)
    made.hidden = 2
    assert set(made.__all__) != public_names(made)


def test_the_public_names_are_importable_from_the_top():
    promised = {
        "PrivateEmbeddings", "PublicEmbeddings", "Budget", "Guarantee", "Relation", "Ledger", "load",
        "MeanPrototypes", "PublicPrototypes", "TopKPrototypes", "CoinPressPrototypes", "MeanEstimation",
        "PublicPriorPrototypes", "PublicMap", "Auto", "NoisyGD", "DPSGDProbe", "AdaMix", "OnlyPublic",
        "FullyPrivate", "NGD", "PPGD", "LanguageInit", "LeastSquares", "NewtonHead", "FeatureCovariance",
        "GlobalAdapt", "FromZero", "FromShots", "FromNames", "Pace",
    }  # fmt: skip
    missing = {name for name in promised if not hasattr(dptransfer, name)}
    assert not missing
    assert promised <= set(dptransfer.__all__)
    assert set(dir(dptransfer)) == {*dptransfer.__all__, "__version__"}


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="nonsense"):
        dptransfer.nonsense  # noqa: B018


def shown_to_checkers(name):
    """What a package imports, or assigns, for type checkers alone; '*' stands for all of a package."""
    tree = ast.parse(Path(importlib.import_module(name).__file__).read_text())
    (block,) = (
        node for node in tree.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
    )
    found = {}
    for node in block.body:
        if isinstance(node, ast.ImportFrom):
            found |= {one.asname or one.name: f"{node.module}:{one.name}" for one in node.names}
        else:
            pairs = zip(node.targets[0].elts, node.value.elts, strict=True)
            found |= {target.id: found.pop(value.id) for target, value in pairs}
    return found


def test_type_checkers_see_what_the_interpreter_finds():
    methods = shown_to_checkers("dptransfer.methods")
    assert methods == dptransfer.methods._PLACES
    top = shown_to_checkers("dptransfer")
    assert top.pop("*") == "dptransfer.methods:*"
    again = {name: f"dptransfer.methods:{name}" for name in ("METHODS", *methods)}
    assert top | again == dptransfer._PLACES
