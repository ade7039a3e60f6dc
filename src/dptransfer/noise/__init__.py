"""Privacy noise: sources, exact samplers, and what their arithmetic costs."""

from dptransfer.noise.lattice_error import SMALLEST_NOISE_MULTIPLIER, lattice_epsilon
from dptransfer.noise.source import NoiseSource, SecureNoise, SeededNoise

__all__ = ["SMALLEST_NOISE_MULTIPLIER", "NoiseSource", "SecureNoise", "SeededNoise", "lattice_epsilon"]
