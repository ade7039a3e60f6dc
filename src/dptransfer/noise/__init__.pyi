from dptransfer.noise.integer_noise import lattice_epsilon as lattice_epsilon
from dptransfer.noise.source import NoiseSource as NoiseSource
from dptransfer.noise.source import SecureNoise as SecureNoise
from dptransfer.noise.source import SeededNoise as SeededNoise
