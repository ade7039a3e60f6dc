"""The whole story on data that everybody has; `dptransfer demo` runs it."""

from dptransfer_lab.demo.glyphs import draw_glyphs
from dptransfer_lab.demo.run import run_demo

__all__ = ["draw_glyphs", "run_demo"]
