"""Foundations: arrays, checks, progress, plug-ins, documents and worker pools."""
