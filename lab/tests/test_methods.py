import pytest

from dptransfer.errors import ArgumentError
from dptransfer.methods import METHODS
from dptransfer_lab.as_published import AS_PUBLISHED, is_private, method_of, settings_of


@pytest.mark.parametrize("name", [*METHODS, *AS_PUBLISHED])
def test_everything_can_be_named_and_knows_its_settings(name):
    assert method_of(name, {}).name == name
    assert ("features" in settings_of(name, {})) or name not in ("mean", "public-prior", "auto")


def test_only_the_librarys_own_methods_are_private():
    assert all(is_private(name) for name in METHODS)
    assert not any(is_private(name) for name in AS_PUBLISHED)


def test_settings_of_printed_mechanisms_are_checked():
    assert settings_of("as-published-top-k", {"k": "2"})["k"] == 2
    with pytest.raises(ArgumentError, match="Its settings: "):
        method_of("as-published-top-k", {"kk": 2})
    with pytest.raises(ArgumentError, match="of as-published-"):
        method_of("as-published-nonsense", {})
    with pytest.raises(ArgumentError, match="name that one"):
        method_of("as-published-top-k", {"from_zero": True})


def test_a_method_of_any_package_is_named_by_its_place():
    place = "dptransfer.methods.prototypes.pool_selection:TopKPrototypes"
    assert method_of(place, {"k": 2}) == method_of("top-k", {"k": 2})
    assert is_private(place)
