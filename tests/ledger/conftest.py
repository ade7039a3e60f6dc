import pytest

from dptransfer.ledger import Ledger
from dptransfer.privacy import Budget

from .behind_its_back import copied
from .samples import GAUSS


@pytest.fixture(params=["file", "memory"])
def ledger(request, tmp_path):
    """Every behaviour is the same in a file and in memory."""
    return Ledger(tmp_path / "ledger.sqlite") if request.param == "file" else Ledger.in_memory()


@pytest.fixture(scope="session")
def template(tmp_path_factory):
    path = tmp_path_factory.mktemp("ledger") / "template.sqlite"
    ledger = Ledger(path)
    ledger.set_budget("clinic-a", Budget(epsilon=5.0, delta=1e-5))
    for _ in range(2):
        ledger.charge("clinic-a", [GAUSS], label="fit")
    ledger.charge("clinic-b", [GAUSS], label="fit")
    return path


@pytest.fixture
def path(template, tmp_path):
    """A ledger file with four entries."""
    return copied(template, tmp_path / "ledger.sqlite")
