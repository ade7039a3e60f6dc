"""The whole story on data that everybody has; `dptransfer demo` runs it."""

from dptransfer.demo.run import run_demo

__all__ = ["run_demo"]
