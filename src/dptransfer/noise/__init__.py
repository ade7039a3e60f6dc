"""Privacy noise: sources, exact samplers, and what their arithmetic costs."""

from dptransfer.noise.integer_noise import lattice_epsilon
from dptransfer.noise.source import NoiseSource, SecureNoise, SeededNoise

__all__ = ["NoiseSource", "SecureNoise", "SeededNoise", "lattice_epsilon"]
