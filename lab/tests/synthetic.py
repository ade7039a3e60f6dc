"""Records in the exact schema of a results folder, made by a formula that tests can check against."""

import hashlib
import itertools
import json

import numpy as np

from dptransfer_lab.points import finished_cells, place_cells
from dptransfer_lab.results import frame_of


def accuracy(method, epsilon, imbalance, seed):
    """A curve that rises with ε; each method has its own place, and the seed moves it a little."""
    strength = {"public-prior": 1.5, "mean": 0.8, "public": 1.1, "top-k": 1.0}.get(method, 0.6)
    top = 0.9 - 0.04 * np.log10(max(imbalance, 1))
    rng = np.random.default_rng([seed, sum(map(ord, method))])
    noise = 0.01 * rng.standard_normal()
    return float(np.clip(top - 0.8 / (1 + 3 * strength * epsilon) + noise, 0.01, 0.99))


NAMES = {"zcdp": "rho", "gdp": "mu"}


def record(
    method="mean",
    *,
    epsilon=1.0,
    seed=0,
    imbalance=1.0,
    flavour="approximate",
    relation="add/remove",
    balanced=None,
    auc=0.52,
    seconds=0.1,
    mib=20.0,
    oracle_tuned=False,
    **fields,
):
    """One record; a keyword of any other name is a field of the record."""
    value = accuracy(method, epsilon, imbalance, seed) if balanced is None else balanced
    small = 0.8 * value if imbalance > 1 else None
    amounts = dict.fromkeys(("epsilon", "rho", "mu")) | {NAMES.get(flavour, "epsilon"): epsilon}
    delta = 0.0 if flavour == "pure" else 1e-5
    whole = {
        "study": "sketch", "data": "flowers", "encoder": "lite0", "classes": 10, "dimension": 64,
        "rows": 4000, "pool": "glyphs", "pool_rows": 2000, "shots": 0, "imbalance": float(imbalance),
        "unit": "row", "person_bound": 1.0,
        "budget": {"flavour": flavour, **amounts, "delta": delta, "relation": relation},
        "method": method, "label": method, "settings": {}, "seed": seed, "status": "done", "message": None,
        "marks": {
            "oracle_tuned": oracle_tuned, "seeded": True, "not_private": method.startswith("as-published-"),
        },
        "guarantee": {"epsilon": epsilon, "delta": delta, "relation": relation, "rho": None, "mu": None},
        "metrics": {
            "balanced_accuracy": value, "accuracy": value, "minority_accuracy": small,
            "worst_class": 0.6 * value, "macro_f1": value, "calibration_error": 0.05,
            "per_class": [value] * fields.get("classes", 10), "attack_auc": auc,
        },
        "cost": {
            "fit_seconds": seconds, "cell_seconds": 2 * seconds, "overhead_seconds": 0.01, "peak_mib": mib,
        },
        "extra": {},
        "made": {
            "version": "0.1.0", "date": "2025-01-02T03:04:05+00:00", "host_cores": 2,
            "study_digest": "ab" * 32, "data_fingerprint": "cd" * 32,
        },
    } | fields  # fmt: skip
    if whole["status"] != "done":
        nothing = dict.fromkeys(whole["metrics"])
        whole |= {"guarantee": None, "metrics": {**nothing, "per_class": []}}
    address = hashlib.sha256(json.dumps(whole, sort_keys=True).encode()).hexdigest()
    return {"cell": address, **whole}


def grid(methods=("public-prior", "mean", "public"), epsilons=(0.1, 0.5, 1.0, 4.0), seeds=5, **lists):
    """A record for each combination; a keyword with a list is another axis."""
    axes = {name: value if isinstance(value, list) else [value] for name, value in lists.items()}
    points = [dict(zip(axes, point, strict=True)) for point in itertools.product(*axes.values())]
    return [
        record(method, epsilon=epsilon, seed=seed, **point)
        for method, epsilon, seed, point in itertools.product(methods, epsilons, range(seeds), points)
    ]


def measured_losses(methods=("mean", "adamix"), epsilons=(1.0,), seeds=2, class_rows=(5, 10, 20, 40), **more):
    """Records with per-instance losses: a straight line to 90 % of the promise, at seed 1 to all of it."""

    def summary(epsilon, seed):
        top = (0.9 + 0.1 * seed) * epsilon
        return {
            "promised": epsilon, "delta": 1e-5, "mean": top / 2, "largest": top, "share_below_half": 0.5,
            "percentiles": [top * place / 100 for place in range(101)], "class_rows": list(class_rows),
            "class_medians": [epsilon * share for share in (0.8, 0.6, 0.4, 0.2)],
        }  # fmt: skip

    return [
        record(method, epsilon=epsilon, seed=seed, extra={"instance_loss": summary(epsilon, seed)}, **more)
        for method, epsilon, seed in itertools.product(methods, epsilons, range(seeds))
    ]


def folder(path, records, study=None):
    """A results folder with these records, and with what was asked for."""
    path.mkdir(parents=True, exist_ok=True)
    lines = (json.dumps(one, ensure_ascii=False) + "\n" for one in records)
    (path / "results.jsonl").write_text("".join(lines), encoding="utf-8")
    name = records[0]["study"]
    asked = {"name": name, "title": "A sketch", "about": "Made by a formula.", "seeds": [0, 1, 2, 3, 4]}
    cells = {r["cell"]: {"label": r["label"], "oracle_tuned": r["marks"]["oracle_tuned"]} for r in records}
    whole = {
        "format": 1,
        "version": "0.1.0",
        "digest": "ab" * 32,
        "study": {**asked, "claim": [], "figure": [], **(study or {})},
        "fingerprints": {"data flowers (lite0)": "cd" * 32},
        "cells": cells,
    }
    (path / "studies").mkdir(exist_ok=True)
    (path / "studies" / f"{name}.json").write_text(json.dumps(whole), encoding="utf-8")
    return path


def cells(records):
    """The finished ones of these records as reports see them: a frame, with their places on the axis."""
    return finished_cells(place_cells(frame_of(records)))
