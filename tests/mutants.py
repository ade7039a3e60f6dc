"""Plant known faults, one at a time, in copies of the tree; the tests that guard against each must notice.

`make mutants` runs this. The faults are in `mutants.toml`, which says how to add one.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
LIST = ROOT / "tests" / "mutants.toml"
COPIED = ("src", "lab", "tests", "pyproject.toml", "conftest.py")
SOURCES = ("src", "lab/src")
LONGEST = 300  # seconds that one mutant's tests may take; all guards together may take ten times as long


@dataclass(frozen=True)
class Mutant:
    """One planted fault.

    Attributes:
        why: what it breaks, in a line.
        file: the file it is planted in, relative to the root.
        find: text that occurs in the file exactly once.
        replace: what takes its place.
        guarded_by: tests that must notice, as pytest takes them.
    """

    why: str
    file: str
    find: str
    replace: str
    guarded_by: tuple[str, ...]

    def stale(self, root: Path) -> str | None:
        """Why the entry no longer fits the tree; None when it does."""
        path = root / self.file
        found = path.read_text().count(self.find) if path.is_file() else -1
        if found != 1:
            return "the file is not there" if found < 0 else f"its text is found {found} times, not once"
        if self.find == self.replace:
            return "it changes nothing"
        for test in self.guarded_by:
            file, _, name = test.partition("::")
            source = (root / file).read_text() if (root / file).is_file() else ""
            if not source or (name and f"def {name.split('::')[-1].split('[')[0]}(" not in source):
                return f"there is no test {test}"
        return None

    def plant(self, root: Path) -> None:
        """Put the fault into a tree."""
        path = root / self.file
        path.write_text(path.read_text().replace(self.find, self.replace))


def read_mutants(path: Path = LIST) -> list[Mutant]:
    """Every entry of the list."""
    return [
        Mutant(
            why=entry["why"],
            **entry["edit"],
            guarded_by=(guards,) if isinstance(guards := entry["guarded_by"], str) else tuple(guards),
        )
        for entry in tomllib.loads(path.read_text())["mutant"]
    ]


def run_tests(root: Path, tests: tuple[str, ...], longest: int = LONGEST) -> subprocess.CompletedProcess[str]:
    """Run tests on the tree at `root`, up to the first failure."""
    own = {"PYTHONPATH": _paths(root), "PYTHONDONTWRITEBYTECODE": ""}
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "--no-header", *tests]
    return subprocess.run(
        command, cwd=root, env={**os.environ, **own}, capture_output=True, text=True, timeout=longest
    )


def _paths(root: Path) -> str:
    return os.pathsep.join(str(root / source) for source in SOURCES)


def outcome(mutant: Mutant, intact: Path) -> str:
    """'caught', or what is wrong: the mutant survived, is stale, or keeps the tests from running."""
    if (problem := mutant.stale(intact)) is not None:
        return f"STALE: {problem}"
    with tempfile.TemporaryDirectory() as temporary:
        root = Path(temporary) / "tree"
        shutil.copytree(intact, root)  # with compiled modules: all but the planted one are still good
        mutant.plant(root)
        try:
            done = run_tests(root, mutant.guarded_by)
        except subprocess.TimeoutExpired:
            return f"UNDECIDED: its tests took more than {LONGEST} s"
    if done.returncode == 1:
        return "caught"
    if done.returncode == 0:
        return "SURVIVED"
    return f"UNDECIDED: pytest ended with {done.returncode}: {_last_line(done.stdout)}"


def copy_tree(target: Path) -> None:
    """What the tests need, without anything that was built."""
    target.mkdir()
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, target / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, target / name)


def require_passing(intact: Path, mutants: list[Mutant], workers: int) -> str | None:
    """What keeps the guards from proving anything: they must pass, on this very tree, without a fault."""
    where = [sys.executable, "-c", "import dptransfer; print(dptransfer.__file__)"]
    own = {**os.environ, "PYTHONPATH": _paths(intact)}
    found = subprocess.run(where, cwd=intact, env=own, capture_output=True, text=True).stdout.strip()
    if not found.startswith(str(intact)):
        return f"the copy is not what Python imports, but {found}"
    tests = sorted({test for mutant in mutants if not mutant.stale(intact) for test in mutant.guarded_by})
    shares = [share for start in range(workers) if (share := tuple(tests[start::workers]))]
    with ThreadPoolExecutor(workers) as pool:
        for done in pool.map(lambda share: run_tests(intact, share, 10 * LONGEST), shares):
            if done.returncode:
                return f"without a fault, the tests fail already:\n{done.stdout[-3000:]}"
    return None


def main() -> int:
    """Plant every fault; the exit status is 1 unless each was caught."""
    options = argparse.ArgumentParser(prog="make mutants", description=__doc__)
    options.add_argument("--only", default="", help="mutants whose file or reason match this expression")
    options.add_argument("--workers", type=int, default=2)
    told = options.parse_args()
    mutants = [one for one in read_mutants() if re.search(told.only, f"{one.file}: {one.why}")]
    began, survivors = time.monotonic(), 0
    with tempfile.TemporaryDirectory() as temporary, ThreadPoolExecutor(told.workers) as pool:
        intact = Path(temporary) / "intact"
        copy_tree(intact)
        print(f"Running the tests that guard {len(mutants)} mutants, without a fault.", flush=True)
        if (problem := require_passing(intact, mutants, told.workers)) is not None:
            print(f"No mutant proves anything: {problem}")
            return 1
        print(f"They pass, in {time.monotonic() - began:.0f} s.", flush=True)

        def timed(mutant: Mutant) -> tuple[str, float]:
            start = time.monotonic()
            return outcome(mutant, intact), time.monotonic() - start

        for mutant, (found, seconds) in zip(mutants, pool.map(timed, mutants), strict=True):
            survivors += found != "caught"
            print(f"{found} in {seconds:.0f} s  {mutant.file}: {mutant.why}", flush=True)
    print(f"{len(mutants) - survivors} of {len(mutants)} caught, in {time.monotonic() - began:.0f} s.")
    return 1 if survivors or not mutants else 0


def _last_line(text: str) -> str:
    return (text.strip().splitlines() or ["nothing"])[-1]


if __name__ == "__main__":
    sys.exit(main())
