"""Is this version ready to be tagged? Build it, install it into empty environments, run the README's story.

`make release-check`, or `python tools/release_check.py --extras core,images,text`. Every check prints one
line; the exit code is 1 if one failed. Wheel and sdist are left in dist/.
"""

import argparse
import os
import re
import shlex
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
# What an environment with an extra must be able to import; `core` is the wheel alone.
IMPORTS = {
    "core": "dptransfer",
    "images": "onnxruntime",
    "medical": "pydicom",
    "onnx": "onnx",
    "readers": "pyarrow",
    "serve": "starlette",
    "hub": "huggingface_hub",
    "app": "jinja2",
    "text": "tokenizers",
    "torch": "torch",
    "deep": "torch",
    "transformers": "transformers",
    "ray": "ray",
    "opendp": "opendp",
}
QUICK = "core,images,medical,readers,serve"


def blocks(page: str, language: str) -> list[str]:
    """The fenced blocks of a page in a language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", (ROOT / page).read_text(), re.MULTILINE | re.DOTALL)


def version() -> str:
    """The version that is written in the source."""
    found = re.search(r'"(.+)"', (ROOT / "src/dptransfer/_version.py").read_text().splitlines()[-1])
    assert found
    return found[1]


def agree_on_the_version() -> None:
    """Changelog and citation name the version of the source."""
    assert re.search(rf"^## \[{re.escape(version())}\]", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert f"version: {version()}\n" in (ROOT / "CITATION.cff").read_text()


def build(dist: Path) -> tuple[Path, Path]:
    """A wheel and an sdist, built in an environment of their own, the wheel from the sdist."""
    with tempfile.TemporaryDirectory() as folder:
        python = empty_environment(Path(folder))
        run(python, "-m", "pip", "install", "--quiet", "build")
        run(python, "-m", "build", "--outdir", dist, ROOT)
    (wheel,), (sdist,) = dist.glob(f"*{version()}*.whl"), dist.glob(f"*{version()}.tar.gz")
    return wheel, sdist


def look_inside(wheel: Path, sdist: Path) -> None:
    """Types and licence are there; nothing private, built or large is."""
    names = zipfile.ZipFile(wheel).namelist()
    assert "dptransfer/py.typed" in names
    assert any(name.endswith("LICENSE") for name in names)
    assert not [name for name in names if not name.startswith("dptransfer")], names
    with tarfile.open(sdist) as packed:
        odd = [one.name for one in packed if re.search(r"\.venv|/site/|\.sqlite|\.emb/", one.name)]
        large = [one.name for one in packed if one.size > 2**20]
    assert not odd, odd
    assert not large, large


def install(wheel: Path, extra: str, folder: Path) -> Path:
    """An empty environment with the wheel and one extra; its Python."""
    python = empty_environment(folder)
    wanted = f"{wheel}" if extra == "core" else f"{wheel}[{extra}]"
    run(python, "-m", "pip", "install", "--quiet", "--constraint", ROOT / "constraints.txt", wanted)
    run(python, "-W", "error", "-c", f"import dptransfer, {IMPORTS[extra]}", cwd=folder)
    run(folder / scripts() / "dptransfer", "--help", cwd=folder)
    return python


def tell_the_story(python: Path, folder: Path, *, pictures: bool) -> None:
    """The README's Python, and where pictures can be encoded its session, without a network's proxies."""
    for block in blocks("README.md", "python"):
        run(python, "-c", block, cwd=folder)
    if not pictures:
        return
    run(python, "-c", blocks("docs/tutorials/photographs.md", "python")[0], cwd=folder)
    for line in re.findall(r"^\$ (.+)$", blocks("README.md", "console")[0], re.MULTILINE):
        words = shlex.split(line)
        if words[1] == "fit":
            words.append("--overwrite")
        run(folder / "env" / scripts() / words[0], *words[1:], cwd=folder)


def empty_environment(folder: Path) -> Path:
    """A new virtual environment; its Python."""
    venv.create(folder, with_pip=True)
    return folder / scripts() / "python"


def scripts() -> str:
    """Where an environment has its programs."""
    return "Scripts" if os.name == "nt" else "bin"


def run(*words: object, cwd: Path = ROOT) -> None:
    """Run a program quietly; show what it printed if it fails."""
    around = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL"))}
    around |= {"DPTRANSFER_LEDGER": str(cwd / "story.sqlite"), "HF_HUB_OFFLINE": "1"}
    done = subprocess.run([str(word) for word in words], cwd=cwd, env=around, capture_output=True, text=True)
    assert done.returncode == 0, f"{shlex.join(map(str, words))}\n{done.stdout}{done.stderr}"


def checked(name: str, work, *given, **how):
    """Do one check and print how it went; what it gives back, or None."""
    try:
        found = work(*given, **how)
    except (AssertionError, ValueError) as problem:
        print(f"FAILED  {name}: {problem}", flush=True)
        FAILED.append(name)
        return None
    print(f"ok      {name}", flush=True)
    return found


FAILED: list[str] = []


def main() -> int:
    """All checks."""
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--extras", default=QUICK, help=f"of {', '.join(IMPORTS)}; default {QUICK}")
    extras = asked.parse_args().extras.split(",")
    checked(f"source, changelog and citation agree on version {version()}", agree_on_the_version)
    built = checked("wheel and sdist are built", build, ROOT / "dist")
    if built is not None:
        checked("they hold types and licence, and nothing else that is large", look_inside, *built)
        for extra in extras:
            with tempfile.TemporaryDirectory() as name:
                folder = Path(name)
                python = checked(f"installs with '{extra}'", install, built[0], extra, folder / "env")
                if python is not None and extra in ("core", "images"):
                    story = "README's story runs" if extra == "images" else "README's Python runs"
                    checked(story, tell_the_story, python, folder, pictures=extra == "images")
    if "urls" not in PROJECT:
        print("note    pyproject.toml has no [project.urls]: set Source and Documentation before the tag")
    return bool(FAILED)


if __name__ == "__main__":
    sys.exit(main())
