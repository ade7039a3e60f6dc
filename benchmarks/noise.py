"""Nanoseconds of processor time per draw of integer noise: our exact samplers, OpenDP's, and numpy's floats.

    pip install 'dptransfer[opendp]'
    python benchmarks/noise.py [--draws 1000000] [--opendp 5000] [--repeats 20]

They are taken in turn, in processor time, since machines are shared; the best of the repeats is shown.
numpy's normal is a yardstick and no alternative: its generator can be predicted, and the low bits of floats
tell about the answer. Then the other draws of a training run: a Poisson sample and a number of trials.
"""

from __future__ import annotations

import argparse
import math
import time

import numpy as np

from dptransfer.noise import SecureNoise

SCALES = {"10": 10.0, "1000": 1e3, "3.73 · 2^20": 3.73 * 2**20, "3.73 · 2^30": 3.73 * 2**30, "2^52": 2.0**52}


def nanoseconds(draw, count: int) -> float:
    started = time.process_time()
    draw()
    return (time.process_time() - started) / count * 1e9


def best_in_turn(repeats: int, draws: dict[str, tuple]) -> dict[str, float]:
    """The best time of each, measured one after the other in every round; the first round warms up."""
    rounds = [{name: nanoseconds(*work) for name, work in draws.items()} for _ in range(repeats + 1)]
    return {name: min(taken[name] for taken in rounds[1:]) for name in draws}


def opendp(law: str, scale: float, count: int):
    """OpenDP's sampler of 64-bit integers as a function without arguments."""
    from opendp.domains import atom_domain, vector_domain
    from opendp.measurements import make_gaussian, make_laplace
    from opendp.metrics import l1_distance, l2_distance
    from opendp.mod import enable_features

    enable_features("contrib")
    integers, zeros = vector_domain(atom_domain(T="i64")), np.zeros(count, dtype=np.int64)
    if law == "Gaussian":
        sampler = make_gaussian(integers, l2_distance(T="f64"), scale=scale)
    else:
        sampler = make_laplace(integers, l1_distance(T="i64"), scale=scale)
    return lambda: sampler(zeros)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--draws", type=int, default=1_000_000)
    arguments.add_argument("--opendp", type=int, default=5_000)
    arguments.add_argument("--repeats", type=int, default=20)
    options = arguments.parse_args()
    noise, rng, many, few = SecureNoise(), np.random.default_rng(0), options.draws, options.opendp
    laws = {"Gaussian": noise.discrete_gaussian, "Laplace": noise.discrete_laplace}
    print("| law | scale, grid steps | ours | 12,800 a call | OpenDP | numpy normal | OpenDP / ours |")
    print("|---|---|---|---|---|---|---|")
    for law, ours in laws.items():
        for name, scale in SCALES.items():
            taken = best_in_turn(
                options.repeats,
                {
                    "ours": (lambda s=scale, draw=ours: draw(s, (many,)), many),
                    "step": (lambda s=scale, draw=ours: draw(s, (10, 1280)), 12_800),
                    "opendp": (opendp(law, scale, few), few),
                    "numpy": (lambda s=scale: rng.normal(0.0, s, many), many),
                },
            )
            ratio = taken["opendp"] / taken["ours"]
            cells = " | ".join(f"{taken[key]:.1f}" for key in ("ours", "step"))
            cells += f" | {taken['opendp']:,.0f} | {taken['numpy']:.1f} | {ratio:.0f}"
            print(f"| {law} | {name} | {cells} |", flush=True)

    others = {
        "Poisson sample, per row, rate 0.01": (lambda: noise.poisson_sample(many, 0.01), many),
        "Poisson sample, per row, rate 0.5": (lambda: noise.poisson_sample(many, 0.5), many),
        "number of trials, geometric, mean 20": (lambda: noise.trials(20.0, 1.0), 1),
        "number of trials, Poisson, mean 20": (lambda: noise.trials(20.0, math.inf), 1),
    }
    print("\n| draw | ns |\n|---|---|")
    for name, taken in best_in_turn(options.repeats, others).items():
        print(f"| {name} | {taken:,.1f} |")


if __name__ == "__main__":
    main()
