"""No test touches the user's ledger or cache."""

import pytest


@pytest.fixture(autouse=True, scope="session")
def cache_in_a_temporary_folder(tmp_path_factory):
    """Point both at temporary folders."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DPTRANSFER_CACHE", str(tmp_path_factory.mktemp("cache")))
        patch.setenv("DPTRANSFER_LEDGER", str(tmp_path_factory.mktemp("ledger") / "ledger.sqlite"))
        yield
