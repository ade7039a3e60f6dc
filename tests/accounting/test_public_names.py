import subprocess
import sys
from inspect import ismodule

import dptransfer.accounting as accounting


def test_all_names_what_is_there_sorted_and_nothing_else():
    assert accounting.__all__ == sorted(set(accounting.__all__))
    there = {name for name, value in vars(accounting).items() if name[0] != "_" and not ismodule(value)}
    assert set(accounting.__all__) == there


def test_importing_accounting_imports_neither_scipy_nor_dp_accounting():
    code = (
        "import sys, dptransfer.accounting; "
        "print(*(name in sys.modules for name in ('scipy', 'dp_accounting', 'numpy')))"
    )
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.split() == ["False", "False", "True"]
