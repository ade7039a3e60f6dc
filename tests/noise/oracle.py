"""OpenDP's discrete samplers: vetted, slow, and what ours are compared with."""

from functools import cache

import numpy as np


@cache
def _sampler(law, scale):
    # "i64": OpenDP's default integer is 32 bits wide and saturates. Its prelude takes seconds to import.
    from opendp.domains import atom_domain, vector_domain
    from opendp.measurements import make_gaussian, make_laplace
    from opendp.metrics import l1_distance, l2_distance
    from opendp.mod import enable_features

    enable_features("contrib")
    integers = vector_domain(atom_domain(T="i64"))
    if law == "gaussian":
        return make_gaussian(integers, l2_distance(T="f64"), scale=scale)
    return make_laplace(integers, l1_distance(T="i64"), scale=scale)


def opendp_gaussian(scale, count):
    """P(k) ∝ exp(−k²/2·scale²)."""
    return np.array(_sampler("gaussian", float(scale))(np.zeros(count, dtype=np.int64)), dtype=np.int64)


def opendp_laplace(scale, count):
    """P(k) ∝ exp(−|k|/scale)."""
    return np.array(_sampler("laplace", float(scale))(np.zeros(count, dtype=np.int64)), dtype=np.int64)
