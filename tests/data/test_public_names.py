import subprocess
import sys


def test_importing_data_and_encoders_loads_nothing_heavy():
    heavy = "{'torch', 'transformers', 'onnxruntime', 'pyarrow', 'datasets', 'pydantic', 'PIL'}"
    code = "import sys; from dptransfer.data import *; from dptransfer.encoders import *; "
    code += f"print(sorted({heavy} & set(sys.modules)))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
