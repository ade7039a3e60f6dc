import subprocess
import sys


def test_importing_accounting_imports_neither_scipy_nor_dp_accounting():
    code = (
        "import sys; from dptransfer.accounting import fits, Requests; "
        "print(*(name in sys.modules for name in ('scipy', 'dp_accounting', 'numpy')))"
    )
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.split() == ["False", "False", "True"]
