"""`dptransfer plan`: what a fit would cost and add."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import asdict
from typing import Annotated

import dptransfer as dpt
from dptransfer.cli import charges, lib, options
from dptransfer.cli.methods_command import method_from, takes_images
from dptransfer.cli.screen import progress_bar, say, show_facts, show_json
from dptransfer.errors import ArgumentError, DPTransferError, MissingDependency
from dptransfer.privacy import Unit

_CLASSES, _WIDTH, _SIDE, _POOL = 10, 1280, 224, 10_000


def plan(
    budget: options.BudgetOptions,
    method: options.MethodOptions,
    reading: options.ReadingOptions,
    declared: options.PrivateOptions,
    data: options.PublicOptions,
    dim: Annotated[int | None, options.data(min=1, help="Width of the rows; default the pool's.")] = None,
    as_json: options.AsJson = False,
) -> None:
    """Show the privacy cost and the noise of a fit, without reading private data.

    --set data.size=N and data.class_counts=A,B,... declare sizes public. With --person, whatever its value,
    the plan protects persons; see also data.person_bound and data.rows_per_person.
    A pool of images or texts is not encoded: the plan assumes rows of its encoder, by default that of a fit.
    --image-size and --grey-range are for methods on images.
    For a pool in many files, the command tries out a small part, to estimate how long the fit will take.

    Example: dptransfer plan --epsilon 1 --delta 1e-5 --classes 10 --dim 1280
    """
    allowed = budget.budget()
    hands = data.workers.start()

    of_method, sizes = options.settings_of(method.settings, options.SIZES)
    chosen = method_from(method.method, of_method, method.tune, reading.reading(method.device))
    rows, shape, unencoded = _public_rows(chosen, data, reading, declared, dim)
    unit = Unit.ROW if declared.person in (None, lib.NOBODY) else Unit.PERSON
    facts, assumed = _facts(chosen, rows, declared.class_list, shape, unit, options.declared_from(sizes))
    chosen.require_unit(facts)
    if rows is not None and not unencoded:
        rows.require_match(facts)
    dpt.accounting.warn_if_weak(allowed, facts.declared_units)
    try:
        with progress_bar(f"Planning '{chosen.name}'"):
            paid = chosen.plan_fit(facts, allowed, rows, holdout=data.holdout)
            made = paid.plan
    except lib.RowsNeeded:
        raise ArgumentError(
            f"'{chosen.name}' chooses by the public rows themselves here; '{data.public}' is not encoded. "
            "Encode it first: dptransfer encode POOL --public --out pool.emb"
        ) from None
    sizing = None
    if isinstance(rows, dpt.PublicEmbeddings) and not unencoded:
        with progress_bar("Trying out a part of the pool"):
            sizing = lib.pool_sizing(made, facts, rows.with_workers(hands))
    notes = [unencoded, *made.notes, *paid.notes]
    if isinstance(rows, dpt.PublicEmbeddings):
        notes.append(lib.accuracy_of_names(made.method.with_words(rows, facts), facts))
    if rows is None and isinstance(chosen, dpt.methods.Auto):
        notes.append(_with_a_pool(chosen, facts, allowed))
    notes = list(filter(None, notes))
    if assumed:
        notes.append(
            f"Stand-ins: {' and '.join(assumed.values())}, as none were given. They decide nothing but the "
            "cost of the integer grid, the events' numeric_epsilon and numeric_delta."
        )
    is_row = len(facts.shape) == 1
    if as_json:
        rounds = [step.times for step in lib.rounds_of(made.mechanisms)]
        told: lib.JsonObject = {"asked": method.method, "notes": notes, "assumed": list(assumed)}
        told["shape"] = facts.shape
        told["steps"] = max(rounds) if rounds and hasattr(made.method, "steps") else None
        told["configuration"] = dpt.methods.configuration_of(made.method)
        told |= {"classes": len(facts.classes), "dimension": facts.dimension if is_row else None}
        told["pool"] = None if sizing is None else {**asdict(sizing), "seconds": sizing.seconds}
        return show_json(charges.privacy_json(made.method.name, paid.guarantee, paid.events) | told)
    examples = f"{facts.dimension} dimensions" if is_row else facts.form
    say(f"Plan of '{made.method.name}' for {len(facts.classes)} classes, {examples}, {allowed}")
    say()
    charges.show_events(paid.events)
    say()
    shown: dict[str, object] = {"Guarantee": paid.guarantee, "Attacker": charges.attack_sentence(paid.events)}
    if unit is Unit.PERSON:
        shown["A person"] = f"counts as {lib.counted_as(facts.person_bound)}"
    if sizing is not None:
        shown |= _pool_facts(sizing, facts)
    show_facts(shown | {("Note" if n == 0 else " " * n): note for n, note in enumerate(notes)})


def _public_rows(
    method: dpt.methods.PrivateMethod,
    data: options.PublicOptions,
    reading: options.ReadingOptions,
    declared: options.PrivateOptions,
    dim: int | None,
) -> tuple[dpt.PublicEmbeddings | lib.PublicImages | lib.PoolOutline | None, tuple[int, ...] | None, str]:
    """The public examples, the shape of an example, and what to say of a pool that is not encoded."""
    pool = None if data.public is None else dpt.Source(data.public)
    shots = None if data.shots is None else dpt.Source(data.shots)
    if isinstance(method, dpt.methods.ImageMethod):
        if dim is not None or shots is not None:
            odd = "--shots" if dim is None else "--dim"
            raise ArgumentError(f"{odd} is about rows; '{method.name}' takes images. Leave it out.")
        if pool is not None:
            lib.require_images(pool, method)
        side = method.size if pool is None else method.network().side
        if side is None:
            return None, None, ""
        images = None if pool is None else lib.public_images(pool, side, method.grey_range)
        return images, (side, side, 3), ""
    unencoded = pool if pool is not None and shots is None and not pool.is_encoded else None
    encoder = reading.encoder if unencoded is None else None
    if any(one is not None for one in (reading.image_size, reading.grey_range, encoder)):
        raise ArgumentError(
            "--image-size and --grey-range are for methods on images, and --encoder is for a pool of images "
            f"or texts, too; '{method.name}' takes rows here. Give their width: --dim 1280"
        )
    if unencoded is not None:
        outline, width, said = _not_encoded(unencoded, reading.encoder, declared.class_list)
        if dim not in (None, width):
            raise ArgumentError(f"Rows of the encoder are {width} wide; got --dim {dim}. Leave it out.")
        return outline, (width,), said
    rows = None if pool is None else pool.public(verify=False)
    rows = lib.with_shots(rows, shots, declared.class_list)
    if dim is None and rows is not None:
        dim = rows.dimension
    return rows, None if dim is None else (dim,), ""


def _not_encoded(
    public: dpt.Source, spec: str | None, classes: tuple[str | int, ...] | None
) -> tuple[lib.PoolOutline, int, str]:
    """A stand-in for the rows of images or texts, their width by the note of the encoder, and what to say."""
    name = spec or lib.DEFAULT_ENCODERS[public.form]
    note = dpt.encoders.ENCODERS.find(name) if name in dpt.encoders.ENCODERS.names else None
    if note is None or note.dimension is None:
        raise ArgumentError(f"A plan loads no '{name}', and cannot know how wide its rows are: --dim 768")
    found = public.find(note.kind)
    words = None
    if note.vocabulary is not None:
        with suppress(MissingDependency):  # not installed: a plan without words costs as much
            words = len(note.vocabulary())
    shots = found.classes is not None and (classes is None or set(found.classes) <= set(classes))
    said = f"'{public.path}' is not encoded: this is the plan for rows of '{name}', {note.dimension} wide."
    if shots:
        said += " With labelled rows of the private classes 'auto' tries other methods, too: encode it first."
    names = classes if note.kind == "text" and classes is not None else ()
    if names and not lib.are_in_words(names):
        said, names = f"{said} {lib.IN_CODES}", ()
    return lib.PoolOutline(len(found), words, names=len(names), classes=()), note.dimension, said


def _facts(
    method: dpt.methods.PrivateMethod,
    public: dpt.PublicEmbeddings | lib.PublicImages | lib.PoolOutline | None,
    classes: tuple[str | int, ...] | None,
    shape: tuple[int, ...] | None,
    unit: Unit,
    declared: lib.DeclaredSizes,
) -> tuple[lib.Facts, dict[str, str]]:
    """What is declared, else what public rows show, else a stand-in where the plan does not need it."""
    shots = public.shots if isinstance(public, dpt.PublicEmbeddings) else None
    if classes is None and "class_counts" in declared:
        classes = tuple(range(len(declared["class_counts"] or ())))
    elif classes is None and shots is not None:
        classes = shots.classes
    if method.plans_by_facts and (classes is None or shape is None):
        shaped = "--image-size 224" if takes_images(method) else "--dim 1280, or --public pool.emb"
        raise ArgumentError(
            f"A plan of '{method.name}' needs the declared classes, and how large an example is; one of "
            f"these is not given. Example: --classes 10 {shaped}"
        )
    assumed = {}
    if classes is None:
        classes, assumed["classes"] = tuple(range(_CLASSES)), f"{_CLASSES} classes"
    if shape is None and takes_images(method):
        shape, assumed["shape"] = (_SIDE, _SIDE, 3), f"pictures of {_SIDE} × {_SIDE} pixels"
    elif shape is None:
        shape, assumed["dimension"] = (_WIDTH,), f"{_WIDTH} dimensions"
    return lib.Facts(classes, shape, unit=unit, **declared), assumed


def _with_a_pool(chosen: dpt.methods.Auto, facts: lib.Facts, budget: lib.Budget) -> str:
    """What a fit with public rows would take in place of this plan's method, if it is another."""
    without = chosen.plan(facts, budget).method.name
    with suppress(lib.RowsNeeded, DPTransferError):
        name = chosen.plan(facts, budget, lib.PoolOutline(_POOL, None, classes=())).method.name
        told = f"This plan has no public rows. With an unlabelled pool 'auto' takes '{name}': to plan what a "
        return "" if name == without else f"{told}fit with --public will do, pass the same --public here."
    return ""


def _pool_facts(sizing: lib.PoolSizing, facts: lib.Facts) -> dict[str, object]:
    """How a pool is gone through, for people."""

    def amount(count: float) -> str:
        return f"{count / 2**30:,.1f} GiB" if count >= 2**30 else f"{count / 2**20:,.0f} MiB"

    passes = (f"{one.name} {amount(one.reads)}, {lib.duration(one.seconds)}" for one in sizing.passes)
    stand_in = "" if facts.declared_size else " (no data.size is declared)"
    each = "" if sizing.processes == 1 else f" in each of {sizing.processes} processes"
    return {
        "Public pool": f"{sizing.rows:,} rows in {sizing.pieces:,} pieces, on {sizing.cores} cores",
        "It is read for": "; ".join(passes),
        "Time": f"about {lib.duration(sizing.seconds)} for {sizing.private_rows:,} private rows{stand_in}, "
        "by a trial on a part of the pool here",
        **({} if sizing.memory is None else {"Memory": f"about {amount(sizing.memory)}{each}"}),
    }
