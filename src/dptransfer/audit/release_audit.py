"""Audit a release: verify it, run its method again on made-up rows, test its noise, and say what came of it.

No private row is read. What it comes to is a light: red where something contradicts the promise, amber where
something that should have been tried was not, green otherwise. The numbers stand in one JSON record, which
follows `audit.schema.json` beside this file, and in a document for whoever must sign (`audit_document`).
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from dptransfer.accounting import epsilon_of, membership_advantage, mu_of, rate_ceilings
from dptransfer.audit.evidence import (
    FALSE_ALARM,
    Evidence,
    SpentEpsilon,
    judge,
    replay_findings,
    witness_findings,
    witnessed_price,
)
from dptransfer.audit.planted import PlantedFault, planted_faults
from dptransfer.audit.replay import NotReplayed, replay
from dptransfer.base.types import JsonObject
from dptransfer.errors import DPTransferError
from dptransfer.ledger import Approval, BudgetChange, Charge, Ledger
from dptransfer.methods.replan import verify_release
from dptransfer.privacy import Event, GaussianEvent, Relation, SampledGaussianEvent, for_group, rounded_up
from dptransfer.release import PrivateClassifier, Verification, read_evaluation, read_release, release_digest
from dptransfer.release.card import best_results, weakest_class
from dptransfer.release.charged_evaluation import without_holdout
from dptransfer.release.manifest import FILE_NAMES, MANIFEST_NAME, current_versions

SCHEMA = 1
"""Number of the record's schema."""

Light = Literal["green", "amber", "red"]

_DELTAS = (1e-5, 1e-6, 1e-8)
_RATES = (1e-4, 1e-3, 1e-2, 1e-1)
_PRIORS = (0.5, 0.1, 0.01)
_ALPHAS = [10 ** (-6 + n / 20) for n in range(121)]
_FEWEST_ACCUSED = 1e-3
_MATERIAL = 1e-3  # by how much two accountants may differ


@dataclass(frozen=True)
class Audit:
    """The outcome of an audit.

    Attributes:
        model: what was audited.
        path: the release.
        verification: the outcome of `verify`.
        findings: what was tried, with its outcome.
        spent: how much of the promise is really spent, as far as was found.
        planted: faults that were planted, with what found them.
        second: ε by another accountant, and which, where there is one.
        not_replayed: why the method was not run again; empty if it was.
        note: what was run in place of the release's own steps, if it was another number.
        book: what the ledger says; None where none was given.
        quick: whether less was drawn than usual.
        seed: of the audit's noise.
        created: UTC time, ISO 8601.
    """

    model: PrivateClassifier
    path: Path
    verification: Verification
    findings: tuple[Evidence, ...]
    spent: SpentEpsilon | None
    planted: tuple[PlantedFault, ...]
    second: tuple[float, str] | None
    not_replayed: str
    note: str
    book: JsonObject | None
    quick: bool
    seed: int
    created: str

    @property
    def contradictions(self) -> tuple[str, ...]:
        """What contradicts the promise."""
        found = [f"verify: {name}" for name in self.verification.failures]
        found += [one.name for one in self.findings if one.verdict == "refuted"]
        claimed = self.model.guarantee.epsilon
        if self.second is not None and self.second[0] > claimed * (1 + _MATERIAL):
            found.append("ε computed again")
        if self.spent is not None and self.spent.share > 1 + _MATERIAL:
            found.append("ε from below")
        return tuple(found)

    @property
    def gaps(self) -> tuple[str, ...]:
        """What should have been tried, and was not."""
        found = [f"verify: {name}" for name in self.verification.missing_checks]
        if not self.quick:  # which leaves out what takes longer
            found += [one.name for one in self.findings if one.verdict == "not tried"]
        found += ["the method on made-up rows"] if self.not_replayed else []
        return tuple(
            found + [f"planted fault not found: {one.fault}" for one in self.planted if not one.caught_by]
        )

    @property
    def light(self) -> Light:
        """Red, amber or green."""
        return "red" if self.contradictions else "amber" if self.gaps else "green"

    @property
    def sentence(self) -> str:
        """What it comes to, in a sentence or two."""
        promise = f"the promise of ε = {rounded_up(self.model.guarantee.epsilon)}"
        delta = self.model.guarantee.delta
        promise += f" at δ = {rounded_up(delta)}" if delta else ""
        promise += f" for {self.model.guarantee.relation.sentence(self.model.guarantee.unit)}"
        if self.light == "red":
            return f"This contradicts {promise}: {'; '.join(self.contradictions)}. Do not release it."
        said = f"Nothing here contradicts {promise}."
        if self.spent is not None:
            least = "At least" if self.spent.proven else "By the accountant,"
            said += f" {least} ε = {self.spent.epsilon:.3g} of that is really spent."
        if self.light == "amber":
            said += f" Not everything was tried: {'; '.join(self.gaps)}."
        return said

    @property
    def tests(self) -> int:
        """How many findings rest on chance."""
        return sum(one.p_value is not None for one in self.findings)

    def to_dict(self) -> JsonObject:
        """The record, which follows the schema."""
        model, events = self.model, self.model.events
        evaluation = read_evaluation(self.path)
        best = best_results(model, evaluation)
        return {
            "schema": SCHEMA,
            "created": self.created,
            "light": self.light,
            "sentence": self.sentence,
            "contradictions": list(self.contradictions),
            "not_tried": list(self.gaps),
            "release": {
                "title": model.provenance.title,
                "method": model.provenance.method,
                "created": model.provenance.created,
                "digest": release_digest(self.path),
                "ledger_head": model.provenance.ledger_head,
                "files": {name: _sha256(self.path / name) for name in (MANIFEST_NAME, *FILE_NAMES)},
                "versions": dict(model.provenance.versions),
            },
            "promise": model.guarantee.to_dict(),
            "computed_again": {
                "epsilon": self.verification.recomputed_epsilon,
                "second": None if self.second is None else {"epsilon": self.second[0], "by": self.second[1]},
                "at": [
                    {"delta": one, "epsilon": _finite(lambda d=one: epsilon_of(events, d))} for one in _DELTAS
                ],
                "groups": [
                    {"size": n, "epsilon": _of_group(events, n, model.guarantee.delta)} for n in (2, 5)
                ],
                "mu": _finite(lambda: mu_of(events)),
                "verification": self.verification.outcome,
            },
            "attacker": attacker_limits(events),
            "evidence": [asdict(one) for one in self.findings],
            "chance": {
                "false_alarm": FALSE_ALARM,
                "tests": self.tests,
                "seed": self.seed,
                "quick": self.quick,
            },
            "spent": None if self.spent is None else asdict(self.spent),
            "planted": [asdict(one) for one in self.planted],
            "replay": {"not_tried_because": self.not_replayed, "note": self.note},
            "ledger": self.book,
            "utility": {
                "measured": best is not None,
                "estimates": {}
                if best is None
                else {name: list(one) for name, one in best.estimates.items()},
                "worst_class": weakest_class(best),
            },
            "publishers_word": list(self.verification.publishers_word),
            "not_shown": self.verification.not_shown,
            "software": current_versions(),
        }


def audit_release(
    path: str | Path, *, ledger: Ledger | None = None, quick: bool = False, seed: int = 0
) -> Audit:
    """Audit a release; no private row is read.

    Args:
        path: the release directory.
        ledger: the owner's ledger, for what was spent and who approved; without one that part is left out.
        quick: draw less, in a few seconds.
        seed: of the audit's noise; the same one gives the same record, but for times.

    Raises:
        ReleaseError: the release cannot be read at all.
    """
    path = Path(path)
    verification = verify_release(path)
    model = read_release(path)
    findings: list[Evidence] = []
    planted: tuple[PlantedFault, ...] = ()
    spent, reason, note = None, "", ""
    try:
        made = replay(model, seed=seed, quick=quick)
    except NotReplayed as problem:
        reason = str(problem)
    else:
        tried, spent = replay_findings(made, model.guarantee.delta, quick=quick)
        if model.witnesses is not None:
            tried += witnessed_price(model.witnesses, made)
        planted, note = tuple(planted_faults(made, model.guarantee.delta)), made.note
        findings += tried
    book = None if ledger is None else ledger_extract(ledger, model)
    if model.witnesses is not None:
        findings += witness_findings(model.witnesses, None if book is None else book["coins"])
    return Audit(
        model,
        path,
        verification,
        tuple(judge(findings)),
        spent,
        planted,
        second_epsilon(model),
        reason,
        note,
        book,
        quick,
        seed,
        datetime.now(UTC).isoformat(timespec="seconds"),
    )


def ledger_extract(ledger: Ledger, model: PrivateClassifier) -> JsonObject:
    """What the ledger says of the release's charge and its account; LedgerError where it has none."""
    head = model.provenance.ledger_head
    ledger.verify(known_head=head)
    charge, summary = ledger.charge_of(head)
    entries = [one for one in ledger.history() if one.dataset == summary.dataset]
    listed = []
    for one in entries:
        told: JsonObject = {"number": one.number, "time": one.time, "user": one.user}
        if isinstance(one, Charge):
            told |= {"what": one.label, "cost": one.cost, "outcome": one.status}
        elif isinstance(one, BudgetChange):
            told |= {"what": f"budget set to {one.budget}", "note": one.note}
        elif isinstance(one, Approval):
            told |= {"what": f"entry {one.charge} approved by {one.approver}", "note": one.note}
        else:
            continue
        listed.append(told)
    return {
        "head": ledger.head,
        "entry": charge.number,
        "coins": charge.coins,
        "account": summary.sentence,
        "charges": summary.charges,
        "unfinished": summary.unfinished,
        "rows_on_record": charge.sketch is not None
        or any(isinstance(one, Charge) and one.sketch is not None for one in entries),
        "entries": listed,
    }


def attacker_limits(events: Sequence[Event]) -> JsonObject:
    """What any attacker gains at most, who knows all but one: by the accountant's trade-off curve.

    Someone who thinks that a unit is in with probability p and guesses by a test of false positive rate α is
    right with probability p·TPR(α) + (1 − p)(1 − α) at most; without a test, with max(p, 1 − p).
    """
    ceilings = rate_ceilings(events, _RATES).tolist()
    curve = rate_ceilings(events, _ALPHAS).tolist()
    guesses = []
    for prior in _PRIORS:
        blind = max(prior, 1 - prior)
        points = [(prior * t, (1 - prior) * a, a) for a, t in zip(_ALPHAS, curve, strict=True)]
        best = max(found + (1 - prior) - accused for found, accused, _ in points)
        surest = max(found / (found + accused) for found, accused, a in points if a >= _FEWEST_ACCUSED)
        guesses.append({"prior": prior, "right": max(best, blind), "surest": surest, "blind": blind})
    return {
        "rates": [{"false_positive": a, "true_positive": t} for a, t in zip(_RATES, ceilings, strict=True)],
        "advantage": membership_advantage(events),
        "guesses": guesses,
    }


def second_epsilon(model: PrivateClassifier) -> tuple[float, str] | None:
    """ε by code that shares nothing with the accountant's; None where there is none.

    Gaussian steps: δ(ε) = Φ(μ/2 − ε/μ) − e^ε·Φ(−μ/2 − ε/μ) (Balle and Wang 2018), by halving. Sampled ones:
    the accountant of privacy losses of `dp_accounting`.
    """
    model = without_holdout(model)
    events, delta = model.events, model.guarantee.delta
    if not events:
        return 0.0, "no private row is used"
    if all(isinstance(one, GaussianEvent) for one in events) and delta > 0:
        square = sum(one.times / one.noise_multiplier**2 for one in events if isinstance(one, GaussianEvent))
        return _gaussian_epsilon(
            math.sqrt(square), delta
        ), "the closed form of Balle and Wang (2018), by halving"
    sampled = all(isinstance(one, GaussianEvent | SampledGaussianEvent) for one in events)
    if sampled and delta > 0 and model.guarantee.relation is Relation.ADD_REMOVE:
        import dp_accounting as dpa
        from dp_accounting.pld.pld_privacy_accountant import PLDAccountant

        accountant = PLDAccountant()
        for one in events:
            step: Any = dpa.GaussianDpEvent(getattr(one, "noise_multiplier"))  # noqa: B009
            if isinstance(one, SampledGaussianEvent):
                step = dpa.PoissonSampledDpEvent(one.sampling_rate, step)
            accountant.compose(step, getattr(one, "times", 1))
        return float(accountant.get_epsilon(delta)), "dp_accounting's PLDAccountant"
    return None


def _gaussian_epsilon(mu: float, delta: float) -> float:
    from scipy.stats import norm

    low, high = 0.0, mu * mu / 2 + 40 * mu
    for _ in range(200):
        middle = (low + high) / 2
        there = norm.cdf(mu / 2 - middle / mu) - math.exp(middle + norm.logcdf(-mu / 2 - middle / mu))
        low, high = (low, middle) if there <= delta else (middle, high)
    return high


def _of_group(events: Sequence[Event], size: int, delta: float) -> float | None:
    return _finite(lambda: epsilon_of([for_group(event, size) for event in events], delta))


def _finite(compute: Any) -> float | None:
    """A number; None where there is none."""
    try:
        found = compute()
    except DPTransferError:
        return None
    return None if found is None or not math.isfinite(found) else float(found)


def _sha256(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def record_bytes(audit: Audit) -> bytes:
    """The content of `audit.json`."""
    return (json.dumps(audit.to_dict(), indent=1, ensure_ascii=False, allow_nan=False) + "\n").encode()
