import subprocess
import sys

import dptransfer.data as package


def test_each_name_is_there_once():
    assert len(package.__all__) == len(set(package.__all__))
    assert all(hasattr(package, name) for name in package.__all__)


def test_importing_data_and_encoders_loads_nothing_heavy():
    heavy = "{'torch', 'transformers', 'onnxruntime', 'pyarrow', 'datasets', 'pydantic', 'PIL'}"
    code = f"import sys, dptransfer.data, dptransfer.encoders; print(sorted({heavy} & set(sys.modules)))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
