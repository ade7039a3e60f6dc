"""Requests of the public API: sources of data, and plan, fit and check on them."""
