"""Votes that a command is given, what is asked about them, and what is said of the charge."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from dptransfer.cli.declared import class_list
from dptransfer.cli.ledger import summary_json, summary_of
from dptransfer.errors import ArgumentError
from dptransfer.privacy import Budget, Relation

if TYPE_CHECKING:
    from dptransfer.arrays import AnyArray
    from dptransfer.ledger import Ledger
    from dptransfer.methods.vote_aggregation import Inquiry
    from dptransfer.noise import NoiseSource


def noise_from(seed: int | None, *, unsafe: bool) -> NoiseSource:
    """Secure noise, unless a test asks for a seed and says so twice."""
    from dptransfer.noise import SecureNoise, SeededNoise

    if seed is None:
        return SecureNoise()
    if not unsafe:
        raise ArgumentError(
            "Answers must have noise that nobody can repeat; --seed makes it repeatable. "
            "Leave --seed out, or pass --unsafe-for-publication too, for tests."
        )
    return SeededNoise(seed)


def inquiry_from(
    queries: int,
    noise: float | None,
    epsilon: float | None,
    delta: float,
    relation: Relation,
    settings: dict[str, Any],
) -> Inquiry:
    """What is asked, with the noise that is given, or the least that fits."""
    from dptransfer.methods.vote_aggregation import Inquiry

    if (noise is None) is (epsilon is None):
        found = "neither" if noise is None else "both"
        raise ArgumentError(
            f"Either --noise says how noisy answers are, or --epsilon what they may cost; got {found}. "
            "Example: --noise 89"
        )
    if noise is not None:
        return Inquiry(queries, noise, relation=relation, **settings)
    budget = Budget(epsilon=epsilon, delta=delta, relation=relation)
    return Inquiry.within(budget, queries, **settings)


def brought(
    path: Path, teachers: int | None, classes: str | None, *, ballots: bool
) -> tuple[AnyArray, int, tuple[str | int, ...], int]:
    """The votes, unread, with the number of teachers, the classes and the number of questions."""
    from dptransfer.data import Facts
    from dptransfer.data.class_names import declared_classes
    from dptransfer.data.numpy_files import load_array

    votes = load_array(path)
    if votes.ndim != 2:
        raise ArgumentError(
            f"Votes have two dimensions, questions × classes, or with --ballots teachers × questions; "
            f"'{path}' has {votes.ndim}. Reshape them."
        )
    if ballots and classes is None:
        raise ArgumentError("--ballots name classes by position; none are declared. Give --classes.")
    if teachers is None:
        if not ballots:
            raise ArgumentError("Counts do not tell how many teachers there are. Give --teachers.")
        teachers = votes.shape[0]
    # Names are written once the charge is made, so what cannot be a class must show here.
    names = range(votes.shape[1]) if classes is None else declared_classes(class_list(classes))
    names = Facts(tuple(names), shape=(1,)).classes
    return votes, teachers, names, votes.shape[1] if ballots else votes.shape[0]


def charge_and_account(book: Ledger, name: str, head: str) -> tuple[dict[str, Any], dict[str, object]]:
    """The charge and the account, as JSON and in words."""
    charge = next(entry for entry in book.history(name) if entry.hash == head)
    account = summary_of(book, charge.dataset)
    entry = {"path": str(book.path), "entry": charge.number, "head": charge.hash}
    return {"ledger": entry, "account": summary_json(account)}, {
        "Charged": f"{account.dataset}, entry {charge.number} of the ledger {book.path}",
        "Account": account.sentence,
    }
