import importlib
import inspect
import pkgutil
import re

import pytest

from dptransfer.mechanisms import ExponentialMechanism
from dptransfer.methods import METHODS, PrivateMethod

FIELDS = ("Releases", "Guarantee", "Relation", "Sensitivity", "Assumes", "Reference")


def classes_of(package):
    """Every class defined in the package's modules, and those of its packages."""
    home = importlib.import_module(package)
    for found in pkgutil.walk_packages(home.__path__, f"{package}."):
        module = importlib.import_module(found.name)
        for value in vars(module).values():
            if inspect.isclass(value) and value.__module__ == module.__name__:
                yield value


def is_protocol(cls):
    return bool(getattr(cls, "_is_protocol", False))


def queries():
    return [
        cls
        for cls in classes_of("dptransfer.queries")
        if not is_protocol(cls) and (hasattr(cls, "l2_sensitivity") or hasattr(cls, "score_range"))
    ]


def mechanisms():
    """Whatever has an event of its own; a class that others inherit from is not one itself."""
    found = [
        cls for cls in classes_of("dptransfer.mechanisms") if not is_protocol(cls) and hasattr(cls, "event")
    ]
    return [cls for cls in found if not any(cls in other.__mro__[1:] for other in found)]


def methods():
    return [
        cls
        for cls in classes_of("dptransfer.methods")
        if issubclass(cls, PrivateMethod) and not inspect.isabstract(cls)
    ]


def fields_of(docstring):
    """The names of the fields with something after them, in the order in which they stand."""
    return re.findall(r"^ *(" + "|".join(FIELDS) + r"): +\S", docstring or "", flags=re.MULTILINE)


@pytest.mark.parametrize(
    "cls", [*queries(), *mechanisms(), ExponentialMechanism, *methods()], ids=lambda cls: cls.__name__
)
def test_the_guarantee_block_is_complete_and_in_order(cls):
    assert fields_of(cls.__doc__) == list(FIELDS)
    assert cls.__doc__.split("\n")[0].strip().endswith((".", "!"))


def test_nothing_is_overlooked():
    named = {"ClassSums", "ClassCounts", "SimilarityScores", "RecentredSums"}
    assert {cls.__name__ for cls in queries()} >= named
    assert {cls.__name__ for cls in mechanisms()} >= {"GaussianMechanism", "TopKMechanism", "PermuteAndFlip"}
    assert set(methods()) >= set(METHODS.values())


def test_a_missing_empty_or_misplaced_field_is_noticed():
    whole = "\n".join(f"    {name}:      something." for name in FIELDS)
    assert fields_of(whole) == list(FIELDS)
    assert fields_of(whole.replace("Assumes", "Supposes")) != list(FIELDS)
    assert fields_of(whole.replace("Relation:      something.", "Relation:")) != list(FIELDS)
    assert fields_of("\n".join(reversed(whole.split("\n")))) != list(FIELDS)
