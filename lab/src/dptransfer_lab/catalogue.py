"""The built-in studies, and starting points for one's own."""

from __future__ import annotations

import difflib
import json
import os
from importlib import resources
from pathlib import Path

from dptransfer.errors import DataError
from dptransfer.sources import read_table
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
        close = difflib.get_close_matches(name, studies, n=1)
        remedy = f"Did you mean '{close[0]}'?" if close else "See: dptransfer bench list"
        raise DataError(f"A built-in study is one of {', '.join(studies)}; got '{name}'. {remedy}")
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
    import jinja2

    text = (resources.files("dptransfer_lab") / "start.toml.jinja").read_text(encoding="utf-8")
    template = jinja2.Template(
        text, trim_blocks=True, keep_trailing_newline=True, undefined=jinja2.StrictUndefined
    )
    demo = '{ pixels = "demo" }'
    given = {"ratios": "[1, 10]", "data": "digits", "source": demo, "pool": "glyphs", "pool_source": demo}
    if data is not None:
        source, encoder = _path(data, target), _encoder_of(data)
        given = {"ratios": "[0]", "data": _word(data), "source": f"{{ {encoder} = {source} }}", "pool": ""}
        if pool is not None:
            given |= {"pool": _word(pool), "pool_source": f"{{ {encoder} = {_path(pool, target)} }}"}
    return str(template.render(name=_word(target), **given))


def _word(path: Path) -> str:
    """A name made of a path's last part."""
    kept = "".join(letter if letter.isascii() and letter.isalnum() else "-" for letter in path.stem)
    return kept.strip("-") or "study"


def _encoder_of(data: Path) -> str:
    """A name for the encoder of these rows: its own, where an `.emb` folder has it on record."""
    known = read_table(data, verify=False).encoder if data.suffix == ".emb" else None
    return "encoder" if known is None else json.dumps(known.name)


def _path(path: Path, target: Path) -> str:
    """A file as a study names it, from where the study will be."""
    if not path.exists():
        raise DataError(f"'{path}' must exist; it does not. Check the path.")
    text = Path(os.path.relpath(path.resolve(), target.resolve().parent)).as_posix()
    if "'" in text or not text.isprintable():
        raise DataError(f"A path in a study cannot hold quotes; '{text}' does. Rename it.")
    return f"'{text}'"
