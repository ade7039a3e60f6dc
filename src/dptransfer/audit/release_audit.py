"""Audit a release: verify it, run its method again on made-up rows, test its noise, and say what came of it.

No private row is read. What it comes to is a light: red where something contradicts the promise, amber where
something that should have been tried was not, green otherwise. The numbers stand in one JSON record, which
follows `audit.schema.json` beside this file, and in a document for whoever must sign (`audit_document`).
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from dptransfer.accounting import epsilon_of, membership_advantage, mu_of, rate_ceilings
from dptransfer.audit import evidence
from dptransfer.audit.evidence import FALSE_ALARM, Evidence, SpentEpsilon
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
        most = self.model.guarantee.epsilon * (1 + _MATERIAL)
        found += ["ε computed again"] * (self.second is not None and self.second[0] > most)
        found += ["ε from below"] * (self.spent is not None and self.spent.share > 1 + _MATERIAL)
        return tuple(found)

    @property
    def gaps(self) -> tuple[str, ...]:
        """What should have been tried, and was not."""
        found = [f"verify: {name}" for name in self.verification.missing_checks]
        if not self.quick:  # which leaves out what takes longer
            found += [one.name for one in self.findings if one.verdict == "not tried"]
        found += ["the method on made-up rows"] if self.not_replayed else []
        found += [f"planted fault not found: {one.fault}" for one in self.planted if not one.caught_by]
        return tuple(found)

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
        provenance, events, delta = self.model.provenance, self.model.events, self.model.guarantee.delta
        best = best_results(self.model, read_evaluation(self.path))
        second, estimates = self.second, {} if best is None else best.estimates
        files = {name: (self.path / name).read_bytes() for name in (MANIFEST_NAME, *FILE_NAMES)}
        return {
            "schema": SCHEMA,
            **{name: getattr(self, name) for name in ("created", "light", "sentence")},
            "contradictions": list(self.contradictions),
            "not_tried": list(self.gaps),
            "release": {
                **{name: getattr(provenance, name) for name in ("title", "method", "created", "ledger_head")},
                "digest": release_digest(self.path),
                "files": {name: hashlib.sha256(content).hexdigest() for name, content in files.items()},
                "versions": dict(provenance.versions),
            },
            "promise": self.model.guarantee.to_dict(),
            "computed_again": {
                "epsilon": self.verification.recomputed_epsilon,
                "second": second and {"epsilon": second[0], "by": second[1]},
                "at": [{"delta": at, "epsilon": _finite(epsilon_of, events, at)} for at in _DELTAS],
                "groups": [{"size": n, "epsilon": _finite(_of_group, events, n, delta)} for n in (2, 5)],
                "mu": _finite(mu_of, events),
                "verification": self.verification.outcome,
            },
            "attacker": attacker_limits(events),
            "evidence": [asdict(one) for one in self.findings],
            "chance": {"false_alarm": FALSE_ALARM}
            | {name: getattr(self, name) for name in ("tests", "seed", "quick")},
            "spent": self.spent and asdict(self.spent),
            "planted": [asdict(one) for one in self.planted],
            "replay": {"not_tried_because": self.not_replayed, "note": self.note},
            "ledger": self.book,
            "utility": {
                "measured": best is not None,
                "estimates": {name: list(one) for name, one in estimates.items()},
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
    spent, reason, note, delta = None, "", "", model.guarantee.delta
    try:
        made = replay(model, seed=seed, quick=quick)
    except NotReplayed as problem:
        reason = str(problem)
    else:
        findings, spent = evidence.replay_findings(made, delta, quick=quick)
        if model.witnesses is not None:
            findings += evidence.witnessed_price(model.witnesses, made)
        planted, note = tuple(planted_faults(made, delta)), made.note
    book = None if ledger is None else ledger_extract(ledger, model)
    if model.witnesses is not None:
        findings += evidence.witness_findings(model.witnesses, None if book is None else book["coins"])
    found, second = tuple(evidence.judge(findings)), second_epsilon(model)
    outcome = model, path, verification, found, spent, planted, second, reason, note, book, quick, seed
    return Audit(*outcome, created=datetime.now(UTC).isoformat(timespec="seconds"))


def ledger_extract(ledger: Ledger, model: PrivateClassifier) -> JsonObject:
    """What the ledger says of the release's charge and its account; LedgerError where it has none."""
    head = model.provenance.ledger_head
    ledger.verify(known_head=head)
    charge, summary = ledger.charge_of(head)
    listed, charges = [], []
    for one in ledger.history():
        if one.dataset != summary.dataset:
            continue
        told: JsonObject = {"number": one.number, "time": one.time, "user": one.user}
        match one:
            case Charge():
                charges.append(one)
                told |= {"what": one.label, "cost": one.cost, "outcome": one.status}
            case BudgetChange():
                told |= {"what": f"budget set to {one.budget}", "note": one.note}
            case Approval():
                told |= {"what": f"entry {one.charge} approved by {one.approver}", "note": one.note}
            case _:
                continue
        listed.append(told)
    return {
        "head": ledger.head,
        "entry": charge.number,
        "coins": charge.coins,
        "account": summary.sentence,
        "charges": summary.charges,
        "unfinished": summary.unfinished,
        "rows_on_record": any(one.sketch is not None for one in (charge, *charges)),
        "entries": listed,
    }


def attacker_limits(events: Sequence[Event]) -> JsonObject:
    """What any attacker gains at most, who knows all but one: by the accountant's trade-off curve.

    Someone who thinks that a unit is in with probability p and guesses by a test of false positive rate α is
    right with probability p·TPR(α) + (1 − p)(1 − α) at most; without a test, with max(p, 1 − p).
    """
    rates = zip(_RATES, rate_ceilings(events, _RATES).tolist(), strict=True)
    curve = list(zip(_ALPHAS, rate_ceilings(events, _ALPHAS).tolist(), strict=True))
    guesses = []
    for prior in _PRIORS:
        blind = max(prior, 1 - prior)
        points = [(prior * t, (1 - prior) * a, a) for a, t in curve]
        best = max(found + (1 - prior) - accused for found, accused, _ in points)
        surest = max(found / (found + accused) for found, accused, a in points if a >= _FEWEST_ACCUSED)
        guesses.append({"prior": prior, "right": max(best, blind), "surest": surest, "blind": blind})
    return {
        "rates": [{"false_positive": a, "true_positive": t} for a, t in rates],
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
        by = "the closed form of Balle and Wang (2018), by halving"
        return _gaussian_epsilon(math.sqrt(square), delta), by
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


def _of_group(events: Sequence[Event], size: int, delta: float) -> float:
    return epsilon_of([for_group(event, size) for event in events], delta)


def _finite(compute: Callable[..., float | None], *given: object) -> float | None:
    """A number; None where there is none."""
    with suppress(DPTransferError):
        found = compute(*given)
        return None if found is None or not math.isfinite(found) else float(found)
    return None


def record_bytes(audit: Audit) -> bytes:
    """The content of `audit.json`."""
    return (json.dumps(audit.to_dict(), indent=1, ensure_ascii=False, allow_nan=False) + "\n").encode()
