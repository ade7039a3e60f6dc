from dptransfer.noise.integer_noise import lattice_epsilon as lattice_epsilon
from dptransfer.noise.noise_source import NoiseSource as NoiseSource
from dptransfer.noise.noise_source import SecureNoise as SecureNoise
from dptransfer.noise.noise_source import SeededNoise as SeededNoise
