"""Three owners as three processes: handwritten digits, thirty rounds of gradient steps, a secure sum.

    python benchmarks/demo_federate.py OUT

Each owner has a third of the training pixels (scikit-learn's digits, 64 numbers a row), a key, a ledger and a
process of its own. They meet in OUT/shares alone. OUT/model is the release.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits

import dptransfer as dpt
from dptransfer.federation import OwnerKey

OWNERS = ("north", "south", "west")
TEST = 500


def dptransfer(*words: object) -> list[str]:
    return [sys.executable, "-m", "dptransfer", *map(str, words)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--epsilon", type=float, default=2.0)
    asked = parser.parse_args()
    out, epsilon = asked.out, asked.epsilon
    out.mkdir(parents=True)
    x, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(x))
    x, y = x[order], y[order]
    parts = dict(zip(OWNERS, np.array_split(np.arange(TEST, len(x)), len(OWNERS)), strict=True))
    keys = []
    for owner, own in parts.items():
        np.savez(out / f"{owner}.npz", x=x[own], y=y[own])
        keys.append(f'{owner} = "{OwnerKey.create(out / f"{owner}.key").public}"')
    terms = f'name = "digits"\nclasses = {list(range(10))}\nmethod = "noisy-gd"\ndimension = 64\n'
    terms += f'epsilon = {epsilon}\ndelta = 1e-5\ntrust = "secure-sum"\n[owners]\n' + "\n".join(keys)
    (out / "study.toml").write_text(terms)
    subprocess.run(dptransfer("federate", "plan", out / "study.toml", "-o", out / "digits.study"), check=True)
    start = time.perf_counter()
    running = []
    for owner in OWNERS:
        words = [out / "digits.study", out / f"{owner}.npz", "--key", out / f"{owner}.key", "--wait", 120]
        words += ["--to", out / "shares", "--name", owner, "--ledger", out / f"{owner}.sqlite"]
        running.append(subprocess.Popen(dptransfer("federate", "share", *words)))
    if any([one.wait() for one in running]):
        sys.exit("An owner did not finish.")
    seconds = time.perf_counter() - start
    join = dptransfer("federate", "join", out / "digits.study", out / "shares", "-o", out / "model")
    subprocess.run(join, check=True)
    subprocess.run(dptransfer("verify", out / "model"), check=True)
    sent = sum(path.stat().st_size for path in (out / "shares").iterdir())
    joint = (dpt.load(out / "model").predict(x[:TEST]) == y[:TEST]).mean()
    budget, alone = dpt.Budget(epsilon=epsilon, delta=1e-5), []
    for own in parts.values():
        private = dpt.PrivateEmbeddings(x[own], y[own], classes=list(range(10)))
        fitted = dpt.methods.NoisyGD().fit(private, budget=budget, ledger=dpt.Ledger.in_memory())
        alone.append((fitted.predict(x[:TEST]) == y[:TEST]).mean())
    print(f"\nThree processes, thirty rounds: {seconds:.0f} s, {sent / 1024:.0f} kB in {out / 'shares'}.")
    print(f"Accuracy on {TEST} digits at epsilon {epsilon:g} for each owner's examples: ", end="")
    print(f"{100 * joint:.1f} % together, {', '.join(f'{100 * one:.1f}' for one in alone)} % alone.")


if __name__ == "__main__":
    main()
