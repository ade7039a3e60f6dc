"""The built-in studies, and starting points for one's own."""

from __future__ import annotations

import os
from importlib import resources
from pathlib import Path

from dptransfer.errors import DataError
from dptransfer_lab.study import Study, parse_study, read_study_file

_SUFFIX = ".toml"


def built_in() -> dict[str, str]:
    """The built-in studies' TOML text by name, in order."""
    folder = resources.files("dptransfer_lab") / "studies"
    files = sorted((file for file in folder.iterdir() if file.name.endswith(_SUFFIX)), key=lambda f: f.name)
    return {file.name.removesuffix(_SUFFIX): file.read_text(encoding="utf-8") for file in files}


def text_of(name: str) -> str:
    """The TOML text of a built-in study."""
    studies = built_in()
    if name not in studies:
        raise DataError(
            f"A built-in study is one of {', '.join(studies)}; got '{name}'. See: dptransfer bench list"
        )
    return studies[name]


def find_study(name: str | Path) -> tuple[Study, Path]:
    """A study by its file, or by the name of a built-in one; and the folder its paths start from."""
    path = Path(name)
    if path.is_file():
        return read_study_file(path), path.parent
    if path.suffix or path.name != str(name):
        raise DataError(
            f"'{name}' must be a study's file; there is none. Make one: dptransfer bench new {path.name}"
        )
    return parse_study(text_of(str(name)), where=f"the built-in study '{name}'"), Path()


def starting_point(target: Path, data: Path | None = None, pool: Path | None = None) -> str:
    """A commented study for the embedded demo data, or for the data named.

    Args:
        target: the file it will be written to, for relative paths.
        data: labelled rows: .emb, .npz, ...; with a test part, or a share is held out.
        pool: public rows by the same encoder.
    """
    if data is None:
        rows, source, pool_source = "digits", '{ pixels = "demo" }', '{ pixels = "demo" }'
        pool_name: str | None = "glyphs"
        ratios = "[1, 10]"
    else:
        for path in filter(None, (data, pool)):
            if not path.exists():
                raise DataError(f"'{path}' must exist; it does not. Check the path.")
        rows, source = _word(data), f"{{ encoder = {_quoted(_relative(data, target))} }}"
        pool_name = None if pool is None else _word(pool)
        pool_source = "" if pool is None else f"{{ encoder = {_quoted(_relative(pool, target))} }}"
        ratios = "[0]"
    public = "" if pool_name is None else _POOL.format(name=pool_name, source=pool_source)
    named = (
        '"none"       # no public rows; methods that need some will be refused'
        if pool_name is None
        else f'"{pool_name}"'
    )
    methods = _METHODS if pool_name is not None else _METHODS_ALONE
    return _START.format(
        name=_word(target),
        rows=rows,
        source=source,
        pool=named,
        public=public,
        ratios=ratios,
        methods=methods,
    )


def _word(path: Path) -> str:
    """A name made of a path's last part."""
    kept = "".join(letter if letter.isascii() and letter.isalnum() else "-" for letter in path.stem)
    return kept.strip("-") or "study"


def _relative(path: Path, target: Path) -> str:
    return Path(os.path.relpath(path.resolve(), target.resolve().parent)).as_posix()


def _quoted(text: str) -> str:
    if "'" in text or not text.isprintable():
        raise DataError(f"A path in a study cannot hold quotes; '{text}' does. Rename it.")
    return f"'{text}'"


_START = """\
# A study: every combination of what is listed here is one cell, that is one fit and its test.
#   dptransfer bench run {name}.toml --out {name}/ --workers 2
# Ctrl-C and the same command again goes on where it stopped.

name = "{name}"
title = "Accuracy against ε"

seeds = 3                  # how many, or a list. A seed decides what is drawn, and the noise
imbalance = {ratios}       # largest class over smallest, in a long tail; 0 leaves class sizes as they are
# shots = [0, 5]           # labelled public examples per class, taken out of the training rows
# attack = false           # leaves out how well members are told from non-members
# instance_loss = true     # measures how much of the promised ε each private row really uses, by a second fit

[[data]]
name = "{rows}"
source = {source}    # rows by encoder: a file with train and test parts, or {{ train = "...", test = "..." }}
pool = {pool}
{public}
[[budget]]                 # one table per currency: epsilon with delta, pure, rho, mu
epsilon = [0.25, 1, 4]
delta = 1e-5
relation = "add/remove"    # or "replace-one"

# [[budget]]
# pure = [1]
{methods}"""

_NO_POOL = '"none"       # no public rows; methods that need some will be refused'
_POOL = """
[[pool]]                   # public rows, by the same encoders
name = "{name}"
source = {source}
"""

_METHODS_ALONE = """
[[method]]                 # a command-line name; settings are its fields, as --set takes them
name = "mean"
label = "noisy class sums"

[[method]]
name = "mean-estimation"
label = "sums over counts"
"""

_METHODS = (
    _METHODS_ALONE
    + """
[[method]]
name = "public-prior"
label = "public prior"

[[method]]
name = "top-k"
label = "3 public prototypes"
settings = { k = 3 }
# oracle_tuned = true      # say so where settings were chosen by looking at test results
# declare = "size"         # what the owner makes public beyond the classes: size, or class_counts
# only = { flavour = ["approximate"], imbalance = [1] }   # where it is tried; default everywhere
"""
)
