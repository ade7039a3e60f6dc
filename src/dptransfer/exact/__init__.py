"""Exact arithmetic: floats to bounded integers, and kernels that give the same integers on every device."""
