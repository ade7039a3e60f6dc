"""Requests of the public API: fit, check, and the data that they are given."""
