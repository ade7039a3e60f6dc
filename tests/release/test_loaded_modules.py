"""Loading a release and predicting import little, and nothing that reads private rows."""

import subprocess
import sys

import pytest

from dptransfer.release import write_release

from .models import make_model

PRIVATE = ("ledger", "mechanisms", "methods", "noise", "queries", "sources")
CODE = """
import sys
import numpy as np
import dptransfer
model = dptransfer.load(sys.argv[1])
model.predict_proba(np.zeros((2, model.dimension)))
print(*(name for name in sys.modules if name.split(".")[0] == "dptransfer"))
"""


@pytest.mark.parametrize("features", ["unit norm", "side by side"])  # the second has every kind of map in it
def test_a_fresh_process_loads_a_release_without_anything_that_reads_private_rows(tmp_path, features):
    release = write_release(make_model(features=features), tmp_path / "model")
    run = subprocess.run(
        [sys.executable, "-c", CODE, str(release)], capture_output=True, text=True, check=True
    )
    loaded = run.stdout.split()
    assert "dptransfer.release.bundle" in loaded
    assert len(loaded) <= 75
    assert [name for name in loaded if name.split(".")[1:2] in [[one] for one in PRIVATE]] == []
