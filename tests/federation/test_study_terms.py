import pytest

from dptransfer.errors import DataError, DPTransferError
from dptransfer.federation import OwnerKey, plan_terms, read_terms

KEYS = {name: OwnerKey(bytes([place]) * 32).public for place, name in enumerate("ab")}
TOML = """
name = "demo"
classes = ["a", "b", "c"]
epsilon = 1.0
delta = 1e-6
dimension = 8
method = "noisy-gd"
settings = {{ steps = 5 }}
trust = "secure-sum"
[owners]
a = "{a}"
b = "{b}"
"""


def test_a_study_is_planned_from_toml(tmp_path):
    (tmp_path / "study.toml").write_text(TOML.format(**KEYS))
    study = plan_terms(read_terms(tmp_path / "study.toml"), None, None)
    assert study.plan.method.steps == 5
    assert (study.is_masked, study.budget.delta) == (True, 1e-6)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("name", "nmae"),
        ("name =", "#"),
        ("[owners]", "["),
        ("dimension = 8", ""),
        ("delta", "unit = 'x'\ndelta"),
    ],
)
def test_terms_that_are_wrong_are_refused(tmp_path, old, new):
    (tmp_path / "study.toml").write_text(TOML.format(**KEYS).replace(old, new, 1))
    with pytest.raises(DPTransferError):
        plan_terms(read_terms(tmp_path / "study.toml"), None, None)


def test_terms_that_are_not_there_are_refused(tmp_path):
    with pytest.raises(DataError):
        read_terms(tmp_path / "study.toml")
