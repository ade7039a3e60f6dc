"""Take part in a study: charge one's own ledger, answer round after round, and send signed shares.

The method runs as in a fit, and where a mechanism asks for an answer it gets the total of all owners
(`JointAnswers`). An owner's own answer is drawn first, in a workspace (`methods.checkpoint`): on disk, for
its owner alone, before anything is sent, and never drawn again. So a killed run goes on with equal bytes and
one charge.

**What a false history could do, and why it cannot.** A method chooses questions from earlier totals, and the
price covers every path of choices, one path per run. Somebody who shows an owner one history in the morning
and another at night would lead it along two paths, and read answers for twice the price. So each answer is
stored with the digest of the history it follows, and a run along another history is refused.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from dptransfer.accounting import warn_if_weak
from dptransfer.base.types import AnyArray, Integers
from dptransfer.data import PrivateEmbeddings, PublicEmbeddings
from dptransfer.errors import ArgumentError, DPTransferError, WorkspaceError
from dptransfer.exact.chunks import plain_floats
from dptransfer.federation.owner_key import OwnerKey
from dptransfer.federation.secure_sum import add_masks
from dptransfer.federation.share_files import Share, ShareFolder, SharesMissing, history_after, totals
from dptransfer.federation.study import Study
from dptransfer.ledger import Charge, Ledger, Receipt
from dptransfer.mechanisms.witness import draw_witnesses
from dptransfer.methods.charging import charge_run, open_workspace, with_defaults
from dptransfer.methods.checkpoint import Workspace
from dptransfer.methods.fitting import gaussian_answers
from dptransfer.methods.method import Outcome, Task, require_as_planned
from dptransfer.methods.votes.voting import TEACHER_DRAW
from dptransfer.noise import NoiseSource
from dptransfer.privacy.witnesses import Witnesses, coin_digest

_OWN_DRAWS = (TEACHER_DRAW,)
"""What each owner draws for itself: stored like an answer, and neither sent nor added up."""


@dataclass(frozen=True)
class Progress:
    """How far an owner is.

    Attributes:
        owner: its name in the study.
        rounds: how many rounds it has answered.
        is_finished: whether the study is over.
        note: what it waits for.
        ledger_head: of the charge.
    """

    owner: str
    rounds: int
    is_finished: bool
    note: str
    ledger_head: str


class _Again(Exception):
    """All answers of the only round are there: the run begins again with their totals."""


@dataclass(eq=False)
class Own:
    """What an owner answers with."""

    name: str
    key: OwnerKey
    workspace: Workspace
    receipt: Receipt

    def answer(self, number: int, what: str, after: str, draw: Callable[[], AnyArray]) -> Integers:
        """The answer with this number: from the workspace, or drawn and stored there."""
        asked = f"{what}, after {after}"
        try:
            return self.workspace.draw_once(number, asked, None if self.receipt.finished else draw)
        except WorkspaceError as problem:
            raise WorkspaceError(
                f"An answer follows one history and is drawn once; answer {number} of '{self.name}' was "
                f"drawn after other shares, or its record is damaged ({problem}) Put the shares back that "
                "were there; if they are gone, this study cannot go on."
            ) from None


class JointAnswers:
    """A noise source of which mechanisms get the totals of all owners, in place of answers about one's rows.

    Args:
        study: the study.
        folder: where shares are.
        noise: of the owner's own shares.
        own: the owner that takes part; None for somebody who only adds up.
        wait: seconds to wait for the shares of a round.
    """

    def __init__(
        self, study: Study, folder: ShareFolder, noise: NoiseSource, own: Own | None = None, wait: float = 0.0
    ) -> None:
        self._noise, self.seeded = noise, noise.seeded
        self.study, self.folder, self.own, self.wait = study, folder, own, wait
        self.after, self.last = study.digest, dict[str, Share]()
        self.rounds = self.sent = 0
        self._totals: list[tuple[str, Integers]] = []
        self.begin()

    def begin(self) -> None:
        """Begin the run, or begin it again."""
        self._asked = self._drawn = 0
        self._batch: list[tuple[str, Integers]] = []

    def draw_once(self, what: str, draw: Callable[[], AnyArray]) -> AnyArray:
        """The total of the shares of all owners; an owner's own share is sent before."""
        if what in _OWN_DRAWS:
            return draw() if self.own is None else self._own_answer(self.own, what, draw)
        self._asked += 1
        if self._asked > len(self._totals):
            if self.own is not None:
                self._batch.append((what, self._own_answer(self.own, what, draw)))
                if len(self._batch) < self.study.answers_per_round:
                    return np.zeros_like(self._batch[-1][1])
                self._send(self.own)
            self._collect()
            if self.own is not None and self.study.answers_per_round > 1:
                raise _Again
        asked, answer = self._totals[self._asked - 1]
        if asked != what:
            raise DPTransferError(
                f"Shares answer the questions of the study; round {self.rounds} is about '{asked}' and not "
                f"'{what}'. Use the version of dptransfer that the study was planned with."
            )
        return answer

    def discrete_gaussian(self, scale: float, shape: tuple[int, ...]) -> Integers:
        """The source's, with the standard deviation of one share."""
        return self._noise.discrete_gaussian(scale * self.study.noise_of_share, shape)

    def gaussian_with_more(self, more: int, scale: float, shape: tuple[int, ...]) -> Integers:
        """Flat, with so many more."""
        return self.discrete_gaussian(scale, (math.prod(shape) + more,))

    def __getattr__(self, name: str) -> Any:
        """No other noise: sums of shares have a known law where each is Gaussian."""
        raise DPTransferError(f"Shares have Gaussian noise; '{name}' was asked for. Please report this.")

    def _own_answer(self, own: Own, what: str, draw: Callable[[], AnyArray]) -> Integers:
        self._drawn += 1
        return own.answer(self._drawn, what, self.after, draw)

    def integers(self, below: int, count: int) -> Integers:
        """The source's, for what is drawn about an owner's own rows and never sent."""
        return self._noise.integers(below, count)

    def keep(self, what: str, compute: Callable[[], AnyArray]) -> AnyArray:
        """Computed again by a run that goes on."""
        return compute()

    @property
    def has_sent_all(self) -> bool:
        """Whether this owner has answered all there will be, as far as that is known before."""
        return self.sent * self.study.answers_per_round == self.study.answers

    def _send(self, own: Own) -> None:
        answers = [answer for _, answer in self._batch]
        if self.study.is_masked:
            answers = add_masks(answers, own.key, own.name, self.study.owners, self.after)
        place = self.rounds + 1, self.after, own.receipt.head
        asked = [(what, answer) for (what, _), answer in zip(self._batch, answers, strict=True)]
        self.folder.put(Share.sign(self.study, own.name, own.key, place, asked))
        self.sent, self._batch = self.rounds + 1, []

    def _collect(self) -> None:
        found = self.folder.collect(self.rounds + 1, self.after, self.wait)
        asked = [one["what"] for one in next(iter(found.values())).fields["answers"]]
        self._totals += zip(asked, totals(found), strict=True)
        self.rounds, self.last, self.after = self.rounds + 1, found, history_after(self.after, found)


@plain_floats()
def share(
    study: Study,
    private: PrivateEmbeddings,
    key: OwnerKey,
    places: Sequence[Path],
    *,
    public: PublicEmbeddings | None = None,
    ledger: Ledger | None = None,
    noise: NoiseSource | None = None,
    workspace: Path | None = None,
    wait: float = 0.0,
    new_data_set: bool = False,
) -> Progress:
    """Charge the owner's ledger once for the whole study, and answer as many rounds as can be answered.

    Called again it goes on: an answer that was drawn is sent again, byte for byte.

    Args:
        study: the study.
        private: the owner's rows.
        key: the owner's key.
        places: the folder for shares; more places may have shares of others.
        public: the study's pool.
        ledger: the owner's; the user's default ledger if None.
        noise: `SecureNoise()` if None.
        workspace: the owner's private folder for this study; beside the key if None.
        wait: seconds to wait for the shares of others in each round.
        new_data_set: the owner's word that rows on record under another name are other people's.

    Raises:
        BudgetExceeded: the owner's budget does not cover the study; no row was read.
        WorkspaceError: the study was begun in another folder, or along another history.
    """
    ledger, noise = with_defaults(study.budget, ledger, noise)
    warn_if_weak(study.budget, study.facts.declared_units, stacklevel=3)  # past `plain_floats`
    owner, rows, prepared = study.owner_of(key), study.own_rows(private), study.prepare(public)
    if workspace is None:
        if key.path is None:
            raise ArgumentError("A key without a file has no place for a study's folder. Pass workspace.")
        workspace = key.path.with_suffix(".studies") / study.digest[:16]
    if not rows.is_unchanged():
        raise WorkspaceError(
            "The rows changed since they were first read. Nothing was charged; read them again."
        )
    label, events = f"study {study.name} {study.digest[:32]}", study.plan.events
    coins = coin_digest(study.digest)
    request = {"study": study.digest, "owner": owner, "private data set": rows.fingerprint}
    joint: JointAnswers | None = None
    try:
        with open_workspace(workspace, noise) as folder:
            number = folder.bind(request)
            _require_only_run(ledger, label, number)
            with charge_run(
                ledger, rows, events, label, new_data_set, number, prepared.public, coins
            ) as receipt:
                _require_only_run(ledger, label, number)
                own = Own(owner, key, folder, receipt)
                joint = JointAnswers(study, ShareFolder(study, places), noise, own, wait)
                try:
                    run_jointly(study, Task(study.joint_plan, prepared.maps, rows, joint, prepared.public))
                except SharesMissing as late:
                    if not joint.has_sent_all:
                        raise  # the charge stays open: the run goes on
                    return Progress(owner, joint.sent, False, str(late), receipt.head)
    except SharesMissing as late:
        assert joint is not None
        return Progress(owner, joint.sent, False, str(late), receipt.head)
    return Progress(owner, joint.rounds, True, "", receipt.head)


def run_jointly(
    study: Study, task: Task[object, PrivateEmbeddings, PublicEmbeddings | None]
) -> tuple[Outcome, Witnesses | None]:
    """Run the method on totals; what came of it, and the witnesses of the totals' noise.

    Coins follow from the study's digest, and the first owner's witnesses alone hold canaries.
    """
    joint = task.noise
    assert isinstance(joint, JointAnswers)
    first = joint.own is not None and joint.own.name == next(iter(study.owners))
    answers = gaussian_answers(study.plan.mechanisms)
    while True:
        joint.begin()
        try:
            with draw_witnesses(study.digest, answers, canaries=first) as drawn:
                outcome = study.plan.method.run(task)
        except _Again:
            continue
        require_as_planned(study.joint_plan, outcome)
        return replace(outcome, events=study.plan.events), drawn.witnesses


def _require_only_run(ledger: Ledger, label: str, number: str) -> None:
    """Raise where this study was charged from another folder: its noise would be drawn a second time."""
    if ledger.path is not None and not ledger.path.exists():
        return
    for entry in ledger.history(recheck=False):
        if isinstance(entry, Charge) and entry.label == label and entry.workspace != number:
            raise WorkspaceError(
                f"An owner draws once for a study; entry {entry.number} of the ledger charged this one from "
                "another folder. Go on with that folder. If it is lost, the study is lost: plan a new one."
            )
