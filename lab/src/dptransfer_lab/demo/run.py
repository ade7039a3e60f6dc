"""The demonstration, step by step: encode, plan, charge, fit, compare, release, verify.

Everything goes into one folder: pictures, embeddings, a ledger of its own (the user's is never touched),
two releases and the figures. Noise is secure, as in any release, so numbers differ a little between runs;
the pictures do not.

The logistic probe on private rows and the curve of accuracy against ε are for teaching only: the probe has
no privacy, and each dot of the curve reads the private pictures once more. The demo may, because its pictures
are public in truth; neither is saved.
"""

from __future__ import annotations

import json
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from dptransfer import Fit, Ledger, SeededNoise, Source, evaluate, verify
from dptransfer.accounting import LARGEST_EPSILON
from dptransfer.base.types import AnyArray, Floats, Integers
from dptransfer.data import Labelled
from dptransfer.encoders import get_encoder
from dptransfer.errors import ArgumentError, BudgetExceeded, DPTransferError, PrivacyWarning
from dptransfer.exact.public_map import PublicMap
from dptransfer.methods import PrivateMethod, PublicPriorPrototypes, PublicPrototypes
from dptransfer.noise import NoiseSource
from dptransfer.privacy import Budget, rounded_up
from dptransfer.release import Evaluation, PrivateClassifier, card_of, evaluate_scores
from dptransfer_lab.demo.digits import digits_sets
from dptransfer_lab.demo.embed import Embedded, claim_folder, embed
from dptransfer_lab.demo.fashion import fashion_sets
from dptransfer_lab.demo.pictures import draw_curve, draw_prototypes, draw_recall
from dptransfer_lab.demo.sets import DemoSets, Result
from dptransfer_lab.demo.story import Story
from dptransfer_lab.unprotected import unit_rows

if TYPE_CHECKING:
    from rich.console import Console


def logistic_test(
    train: tuple[AnyArray, Integers], test: tuple[AnyArray, Integers], sets: DemoSets
) -> Evaluation:
    """Logistic regression on unit-norm square roots of the embeddings, classes weighted alike."""
    from sklearn.linear_model import LogisticRegression

    model = LogisticRegression(C=100.0, max_iter=1000, class_weight="balanced", tol=1e-3)
    chosen = model.fit(_scaled(train[0]), train[1]).predict(_scaled(test[0]))
    votes, labels = np.eye(len(sets.classes))[chosen], Labelled(test[1], sets.classes)
    return evaluate_scores(votes, labels, classes=sets.classes, minority_of=sets.sizes)


def _scaled(rows: AnyArray) -> Floats:
    return unit_rows(np.sqrt(np.abs(rows, dtype=np.float64)))


def fit(
    method: PrivateMethod, rows: Embedded, budget: Budget, ledger: Ledger, noise: NoiseSource | None = None
) -> PrivateClassifier:
    """Fit a method on the demo's rows, as `dptransfer.fit` does."""
    return Fit(Source(rows.private), budget, method, Source(rows.public)).run(ledger, noise)


def accuracy_curve(
    method: Callable[[], PrivateMethod],
    rows: Embedded,
    epsilons: Sequence[float],
    delta: float,
    *,
    repetitions: int = 3,
) -> dict[float, list[float]]:
    """Balanced accuracies of a few fits at each ε that is no absurd one; nothing is released."""
    budgets = [Budget(epsilon=value, delta=delta) for value in epsilons if value <= LARGEST_EPSILON]
    return {
        budget.epsilon or 0.0: [_balanced(method(), rows, budget, seed) for seed in range(repetitions)]
        for budget in budgets
    }


def _balanced(method: PrivateMethod, rows: Embedded, budget: Budget, seed: int) -> float:
    """Mean recall of one seeded fit; the demo's test sets are balanced, so this is its accuracy."""
    ledger, noise = Ledger.in_memory(strict_names=True), SeededNoise(seed)
    with warnings.catch_warnings(action="ignore", category=PrivacyWarning):  # a dot promises nothing anyway
        model = fit(method, rows, budget, ledger, noise)
    chosen = model.scores(rows.test).argmax(axis=1)
    return float((chosen == rows.test_labels).mean())


SETS: dict[str, Callable[[], DemoSets]] = {"digits": digits_sets, "fashion-mnist": fashion_sets}
METHOD: Callable[[], PrivateMethod] = PublicPriorPrototypes
VISIBLE = PublicPrototypes(features=PublicMap())  # one public picture per class: the model can be shown
ENCODER = "efficientnet-lite0"
PICTURE_SIZE = 96
CURVE = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0)  # ε of the teaching figure, in units of the demo's ε


def run_demo(
    *, data: str = "digits", out: Path, epsilon: float = 1.0, delta: float = 1e-5, console: Console
) -> None:
    """Tell the whole story once, on the console and in files under `out`.

    Args:
        data: 'digits', or 'fashion-mnist' where its Debian package is installed.
        out: a folder of the demo's own; embeddings that an earlier run left there are used again.
        epsilon: ε of each of the two fits.
        delta: δ of each.
        console: where to tell it.
    """
    if data not in SETS:
        raise ArgumentError(f"data must be one of {', '.join(SETS)}; got {data!r}. Choose one of these.")
    budget = Budget(epsilon=epsilon, delta=delta)
    out = Path(out)
    started = time.monotonic()
    story = Story(console)
    with console.status("Reading and drawing pictures"):
        sets = SETS[data]()
    claim_folder(out)
    story.opening(sets)

    encoder = get_encoder(ENCODER, size=PICTURE_SIZE)
    with story.encoding(encoder.identity.name, PICTURE_SIZE) as progress:
        rows = embed(sets, encoder, out, progress=progress)
    story.encoded(rows.reused)

    ledger = Ledger(out / "ledger.sqlite")
    _make_room(ledger, sets.name, budget)
    method = METHOD()
    story.plan(method.plan(rows.private.facts, budget, rows.public), sets.name)
    model = fit(method, rows, budget, ledger)
    tested = _test(model, rows, sets)
    model.save(out / "model", evaluation=tested, overwrite=True)
    story.guarantee(model.guarantee)

    results = _compare(model, tested, rows, sets)
    story.results(results, sets)
    promise = f"{sets.name}; secure noise, so another run differs a little. Test pictures are not protected."
    draw_recall(out / "figures" / "recall.png", results, sets.classes, sets.sizes, promise)

    curve = accuracy_curve(METHOD, rows, [epsilon * factor for factor in CURVE], delta)
    draw_curve(out / "figures" / "epsilon.png", curve, results)

    chosen = fit(VISIBLE, rows, budget, ledger)
    chosen_tested = _test(chosen, rows, sets)
    chosen.save(out / "prototypes", evaluation=chosen_tested, overwrite=True)
    captions = _draw_prototypes(out / "figures" / "prototypes.png", chosen, sets)
    story.prototypes(captions, chosen_tested.balanced_accuracy, chosen.guarantee)

    refusal = _refused(method, rows, sets.name, budget, ledger)
    story.ledger(ledger, sets.name, refusal)
    story.card(card_of(model, tested), verify(out / "model"))
    _write_results(out / "results.json", results, model, ledger, sets)
    story.closing(out, data, sets, time.monotonic() - started)


def _test(model: PrivateClassifier, rows: Embedded, sets: DemoSets) -> Evaluation:
    name = f"{sets.name}, balanced test pictures"
    return evaluate(model, rows.test, rows.test_labels, minority_of=sets.sizes, name=name)


def _compare(model: PrivateClassifier, tested: Evaluation, rows: Embedded, sets: DemoSets) -> list[Result]:
    """The private classifier, a reference without privacy, and one without private data."""
    test = (rows.test, rows.test_labels)
    private = (rows.private.rows, rows.private.labels)  # a reference to compare with, never saved
    results = [
        Result(model.provenance.method, f"ε = {rounded_up(model.guarantee.epsilon, 3)}", tested),
        Result("logistic probe", "not private", logistic_test(private, test, sets)),
    ]
    labels = sets.public.labels
    if labels is not None:
        known = labels >= 0
        alone = logistic_test((rows.public.rows[known], labels[known]), test, sets)
        results.append(Result("public pool alone", "sees no private picture", alone))
    return results


def _draw_prototypes(path: Path, chosen: PrivateClassifier, sets: DemoSets) -> dict[str, str]:
    """Draw the chosen public pictures; return what they show, by class, where that is known."""
    assert chosen.provenance.prototypes is not None
    assert sets.test.labels is not None
    places = {name: rows[0] for name, rows in chosen.provenance.prototypes["rows"].items()}
    examples = {
        name: sets.test.pixels[np.flatnonzero(sets.test.labels == place)[0]]
        for place, name in enumerate(sets.classes)
    }
    draw_prototypes(
        path,
        {name: sets.public.pixels[place] for name, place in places.items()},
        examples,
        ("chosen", "for comparison"),
        f"Above: the public picture chosen for each class at ε = {rounded_up(chosen.guarantee.epsilon, 3)}. "
        "Below: a test picture of the class. No private picture is shown.",
    )
    captions = sets.public.captions
    return {} if captions is None else {name: captions[place] for name, place in places.items()}


def _make_room(ledger: Ledger, name: str, budget: Budget) -> None:
    """On a second run, do as an owner who allows more: the ledger still adds up everything ever spent."""
    spent = ledger.privacy_spent(name, delta=budget.delta)
    if spent is not None and budget.epsilon is not None:
        allowed = Budget(epsilon=spent.epsilon + 3 * budget.epsilon, delta=budget.delta)
        ledger.set_budget(name, allowed, note="another run of the demo")


def _refused(method: PrivateMethod, rows: Embedded, name: str, budget: Budget, ledger: Ledger) -> str:
    """Close the account at what is spent, ask for one fit more, and return the refusal."""
    spent = ledger.privacy_spent(name, delta=budget.delta)
    assert spent is not None
    limit = Budget(epsilon=float(rounded_up(spent.epsilon, 4)), delta=budget.delta)
    ledger.set_budget(name, limit, note="the demo ends here")
    try:
        fit(method, rows, budget, ledger)
    except BudgetExceeded as refusal:
        return str(refusal)
    raise DPTransferError("The ledger must refuse a fit above its budget; it did not. Please report this.")


def _write_results(
    path: Path, results: list[Result], model: PrivateClassifier, ledger: Ledger, sets: DemoSets
) -> None:
    spent = ledger.privacy_spent(sets.name)
    whole = {
        "data": sets.name,
        "classes": list(sets.classes),
        "class_sizes": list(sets.sizes),
        "guarantee": model.guarantee.to_dict(),
        "spent_in_all_runs": None if spent is None else spent.to_dict(),
        "results": [
            {
                "name": one.name,
                "promise": one.promise,
                "balanced_accuracy": one.tested.balanced_accuracy,
                "smallest_quarter": one.tested.minority_accuracy,
                "recall": list(one.tested.recall),
            }
            for one in results
        ],
    }
    path.write_text(json.dumps(whole, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
