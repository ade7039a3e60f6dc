"""Fuzz everything that reads a file: `make fuzz`, or `python -m fuzz` with `tests` on the path.

Each target runs in a process of its own that may use 6 GB of address space; what a broken file could make it
reserve beyond that fails the case. The same seed gives the same cases.
"""

import argparse
import json
import os
import random
import resource
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

from . import ledgers, lists, releases, stores, tables
from .target import Failure, Target, run_case

ADDRESS_SPACE = 6 * 10**9
KEPT = 5  # failing inputs that are kept for each cause
LARGEST_KEPT = 2**24
PIECE = 1000  # cases for which a process lives
KINDS = (tables, lists, stores, releases, ledgers)


def all_targets():
    """Every target, by name."""
    return {target.name: target for kind in KINDS for target in kind.targets()}


def fuzz(target: Target, seed: int, cases: range, kept: Path) -> dict[str, int]:
    """Run cases of one target here; how many ended how. Failing inputs go to `kept`, each with its reason."""
    ends: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as temporary:
        intact, folder = Path(temporary) / "intact", Path(temporary) / "case"
        intact.mkdir()
        target.write(intact)
        target.use(intact, False)  # the check itself must hold for what is whole
        for number in cases:
            print(f"{target.name}, case {number}", flush=True)  # the last line of a process that was killed
            end = run_case(target, intact, folder, random.Random(f"{seed}/{target.name}/{number}"))
            if isinstance(end, Failure):
                ends[end.cause] += 1
                if ends[end.cause] <= KEPT:
                    _keep(folder, kept / f"{target.name.replace(' ', '-')}-{seed}-{number}", end)
            else:
                ends[end] += 1
    return dict(ends)


def fuzz_apart(names: Sequence[str], seed: int, cases: range, kept: Path) -> dict[str, dict[str, int]]:
    """The same for several targets in a process with limits; a process that dies is one more cause."""
    command = [sys.executable, "-m", __package__, "--child", *names, "--seed", str(seed), "--out", str(kept)]
    command += ["--from", str(cases.start), "--cases", str(len(cases))]
    here = str(Path(__file__).parents[1])
    with tempfile.TemporaryDirectory() as temporary:
        own = {
            "PYTHONPATH": os.pathsep.join([here, *filter(None, [os.environ.get("PYTHONPATH")])]),
            "OMP_NUM_THREADS": "1",  # threads reserve address space; the limit is for what files do
            "OPENBLAS_NUM_THREADS": "1",
            "MALLOC_ARENA_MAX": "2",
            "TMPDIR": temporary,  # removed even when the child is killed
            "DPTRANSFER_CACHE": temporary,
            "DPTRANSFER_LEDGER": f"{temporary}/default.sqlite",
        }
        done = subprocess.run(command, env={**os.environ, **own}, capture_output=True, text=True)
    if done.returncode:
        at = (done.stdout.splitlines() or ["the start"])[-1]
        said = done.stderr.splitlines() or ["no words"]
        why = " ".join(said[:3]) if said[0].startswith("Timeout") else said[-1]
        return {names[0]: {f"the process ended with {done.returncode} at {at}: {why}": 1}}
    found: dict[str, dict[str, int]] = json.loads(done.stdout.splitlines()[-1])
    return found


def failures(ends: Mapping[str, int]) -> dict[str, int]:
    """What is neither accepted nor refused."""
    return {cause: count for cause, count in ends.items() if cause not in ("accepted", "refused")}


def _keep(folder: Path, place: Path, failure: Failure) -> None:
    shutil.rmtree(place, ignore_errors=True)
    (place / "input").mkdir(parents=True)
    for path in folder.rglob("*"):
        if path.is_file() and path.stat().st_size < LARGEST_KEPT:
            copy = place / "input" / path.relative_to(folder)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, copy)
    (place / "why.txt").write_text(f"{failure.cause}\n\n{failure.details}\n", errors="replace")


def main() -> int:
    """The command line; the exit status says whether anything failed."""
    options = argparse.ArgumentParser(prog="make fuzz", description=__doc__)
    options.add_argument("--cases", type=int, default=10_000, help="of each target")
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--from", type=int, default=0, dest="start", help="number of the first case")
    options.add_argument("--only", default="", help="targets whose name contains this")
    options.add_argument("--out", type=Path, default=Path("fuzz-failures"), help="folder for failing inputs")
    options.add_argument("--workers", type=int, default=2)
    options.add_argument("--child", nargs="+", help=argparse.SUPPRESS)
    told = options.parse_args()
    cases = range(told.start, told.start + told.cases)
    if told.child:
        resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE))
        targets = all_targets()
        found = {name: fuzz(targets[name], told.seed, cases, told.out) for name in told.child}
        print(json.dumps(found))
        return 0
    return _report(told, cases)


def _report(told: argparse.Namespace, cases: range) -> int:
    """Run the targets side by side, a thousand cases at a time; say how it goes, and sum up."""
    out = told.out.absolute()
    names = [name for name in all_targets() if told.only in name]
    ends: dict[str, Counter[str]] = {name: Counter() for name in names}
    with ThreadPoolExecutor(told.workers) as pool:
        running = [
            pool.submit(fuzz_apart, [name], told.seed, cases[start : start + PIECE], out)
            for name in names
            for start in range(0, len(cases), PIECE)
        ]
        for job in as_completed(running):
            for name, found in job.result().items():
                ends[name].update(found)
                print(_words(name, ends[name]), flush=True)
    failed = [(name, *one) for name, counted in ends.items() for one in failures(counted).items()]
    for name, cause, count in failed:
        print(f"FAILED {name}: {count} x {cause}")
    total = sum(counted.total() for counted in ends.values())
    print(f"{total} cases of {len(names)} targets, seed {told.seed}: {len(failed)} causes of failure.")
    if failed:
        print(f"The inputs that failed are in {told.out}, named by target, seed and case.")
        print("One of them again: make fuzz ONLY=TARGET SEED=SEED FROM=CASE CASES=1")
    return 1 if failed else 0


def _words(name: str, counted: Counter[str]) -> str:
    bad = sum(failures(counted).values())
    return f"{name}: {counted['accepted']} accepted, {counted['refused']} refused, {bad} failed"


if __name__ == "__main__":
    sys.exit(main())
