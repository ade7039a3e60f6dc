"""Terms of a study as owners write them: study.toml."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dptransfer.base.types import JsonObject
from dptransfer.data import Facts, PublicEmbeddings
from dptransfer.data.facts import EncoderIdentity
from dptransfer.errors import ArgumentError, DataError
from dptransfer.federation.study import Study, plan_study
from dptransfer.methods.configuration import as_method, configure
from dptransfer.privacy import Budget, Relation, Unit

_SETTINGS = {
    "name", "owners", "classes", "method", "settings", "epsilon", "delta", "relation", "unit",
    "person_bound", "rows_per_person", "size", "dimension", "encoder", "public", "trust", "colluders",
}  # fmt: skip


def read_terms(path: Path) -> JsonObject:
    """What a study.toml says, by field, each known; `plan_terms` plans it."""
    try:
        found = tomllib.loads(path.read_text("utf-8"))
    except OSError as problem:
        raise DataError(f"A study is planned from a file; '{path}': {problem.strerror}.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as problem:
        raise DataError(f"A study is written in TOML; '{path}' is not ({problem}).") from None
    odd = sorted(set(found) - _SETTINGS)
    missing = sorted({"name", "owners", "classes", "epsilon", "delta"} - set(found))
    if odd or missing:
        what = f"has the unknown field '{odd[0]}'" if odd else f"has no '{missing[0]}'"
        raise ArgumentError(
            f"A study has the fields {', '.join(sorted(_SETTINGS))}; '{path}' {what}. Correct it."
        )
    return found


def plan_terms(
    terms: Mapping[str, Any], public: PublicEmbeddings | None, encoder: EncoderIdentity | None
) -> Study:
    """Plan what a study.toml says.

    Args:
        terms: as `read_terms` gives them.
        public: the pool that it names.
        encoder: the encoder that it names; that of the pool if None.
    """
    width = terms.get("dimension", None if public is None else public.dimension)
    if width is None:
        raise ArgumentError(
            "A study says how wide rows are; it has neither a pool nor a width. Add: dimension = 384"
        )
    own = {one: terms[one] for one in ("size", "person_bound", "rows_per_person") if one in terms}
    encoder = encoder or (None if public is None else public.encoder)
    try:
        unit, relation = Unit(terms.get("unit", "row")), Relation(terms.get("relation", "add/remove"))
    except ValueError as problem:
        raise ArgumentError(
            f"unit is row or person, relation add/remove or replace-one; {problem}."
        ) from None
    facts = Facts(tuple(terms["classes"]), (width,), encoder=encoder, unit=unit, **own)
    budget = Budget(epsilon=terms["epsilon"], delta=terms["delta"], relation=relation)
    method = configure(as_method(terms.get("method", "auto")), terms.get("settings", {}))
    ways = {one: terms[one] for one in ("trust", "colluders") if one in terms}
    return plan_study(
        terms["name"],
        terms["owners"],
        facts,
        budget,
        method=method,
        public=public,
        **ways,
    )
