"""Registry of methods, our own and those of other packages, their descriptions, and types of their settings.

Colours are those of Okabe and Ito and of Tol, which keep apart for people who see fewer colours; a marker of
its own says the same again in print without colour. Settings are checked by their types when a method, or a
part of one, is made:

>>> from dptransfer.methods.heads.noisy_gd import NoisyGD
>>> NoisyGD(steps=0)
Traceback (most recent call last):
    ...
dptransfer.errors.ArgumentError: steps must be a whole number of at least 1; got 0.
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, field, fields, replace
from functools import cache, partial
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, TypeAlias

from dptransfer.base import checks, plugins
from dptransfer.errors import ArgumentError

if TYPE_CHECKING:
    from dptransfer.methods.method import PrivateMethod

_PACKAGE = "dptransfer.methods"
# In the order of every list, table and legend.
OWN = {
    "auto": "auto:Auto",
    "public-prior": "heads.public_prior:PublicPriorPrototypes",
    "mean": "prototypes.class_sums:MeanPrototypes",
    "public": "prototypes.pool_selection:PublicPrototypes",
    "top-k": "prototypes.pool_selection:TopKPrototypes",
    "mean-estimation": "prototypes.class_sums:MeanEstimation",
    "projection": "prototypes.projection:Projection",
    "coinpress": "prototypes.class_sums:CoinPressPrototypes",
    "least-squares": "heads.second_order:LeastSquares",
    "dpsgd": "heads.noisy_gd:DPSGDProbe",
    "warm-start": "heads.noisy_gd:WarmStart",
    "global-adapt": "heads.noisy_gd:GlobalAdapt",
    "noisy-gd": "heads.noisy_gd:NoisyGD",
    "newton": "heads.second_order:NewtonHead",
    "feature-covariance": "heads.second_order:FeatureCovariance",
    "adamix": "heads.mixed:AdaMix",
    "ngd": "heads.mixed:NGD",
    "ppgd": "heads.mixed:PPGD",
    "fully-private": "heads.mixed:FullyPrivate",
    "only-public": "heads.mixed:OnlyPublic",
    "language": "heads.mixed:LanguageInit",
    "transfer-pate": "votes.pate:TransferPATE",
    "private-knn": "votes.nearest:PrivateKNN",
    "prom-pate": "votes.pate:PromPATE",
    "pate": "votes.pate:PATE",
    "film": "deep.fine_tuning:FiLM",
    "lora": "deep.fine_tuning:LoRA",
    "warm-start-network": "deep.fine_tuning:WarmStartNetwork",
}


def _accepted(name: str, found: object) -> type[PrivateMethod]:
    """A class that can be used as the method of this name, or of its own name where none is given."""
    from dptransfer.methods.configuration import parts_of
    from dptransfer.methods.method import PrivateMethod

    if not (isinstance(found, type) and issubclass(found, PrivateMethod)) or inspect.isabstract(found):
        raise ArgumentError(
            "A method is a class that derives from EmbeddingMethod or ImageMethod and has plan and run; got "
            f"{found!r}. The page 'Adding a method' shows one."
        )
    theirs, own = not found.__module__.startswith(f"{_PACKAGE}."), getattr(found, "name", "")
    if not own or own != (name or own):
        raise ArgumentError(f"A method must have the name it is registered under; this one has '{own}'.")
    if theirs and own in (*OWN, "private-tuning"):
        raise ArgumentError(f"Names of this library cannot be taken; '{own}' is one. Choose another.")
    if any(one.default is MISSING and one.default_factory is MISSING for one in fields(found)):
        raise ArgumentError(f"Every field of a method has a default; one of '{own}' has none. Give it one.")
    if theirs:
        try:
            tuple(parts_of(found))  # as whoever verifies a release does, of this method or of another
        except NameError as problem:
            raise ArgumentError(
                f"The types of a method's fields must be known at run time; in '{own}' {problem}. "
                "Import it outside of `if TYPE_CHECKING`."
            ) from None
    return found


METHODS: plugins.Registry[type[PrivateMethod]] = plugins.Registry(
    "method", _PACKAGE, {name: f"{_PACKAGE}.{place}" for name, place in OWN.items()}, _accepted
)

PROTOTYPES = (
    "Wahdany, Jagielski, Dziedzic, Boenisch: Differentially Private Prototypes for Imbalanced "
    "Transfer Learning (AAAI 2025)"
)
FEATURES = (
    "Mehta, Krichene, Thakurta, Kurakin, Cutkosky: Differentially Private Image Classification from "
    "Features (TMLR 2023)"
)
MIXED = (
    "Golatkar, Achille, Wang, Roth, Kearns, Soatto: Mixed Differential Privacy in Computer Vision (CVPR 2022)"
)
RIGHT_STEPS = "with the accounting corrected: T steps cost T/2σ² in zCDP, where T²/2σ² is printed."
TEACHERS = (
    "Li, Tsai, Yu, Chen, Ren: Exploring the Benefits of Visual Prompting in Differential Privacy (ICCV 2023)"
)


class Colour(NamedTuple):
    """A colour on white paper, and its counterpart on a dark page."""

    light: str
    dark: str


FROM_NAME = Colour("", "")  # one of these, by the name of the method
_LIGHT = "#444b52 #332288 #0072b2 #bf4a00 #cc8a00 #3fa0da #8a8a2b #7a4a1e #009e73 #882255 #2b8c8c #cc79a7"
_DARK = "#b4bcc4 #9a8cf0 #4aa8e0 #ff8a3c #f0b840 #7cc6f2 #c4c45a #c89a6a #33c79c #dd7aae #62c8c8 #e49cc4"
COLOURS = tuple(map(Colour, _LIGHT.split(), _DARK.split()))
_MARKERS = "*Dos^v<>phPHd"  # as many as colours and one more: no two of the library's methods have both


@dataclass(frozen=True)
class About:
    """Description of a method for help, cards and figures; its name and docstring fill in what is left out.

    Attributes:
        summary: what it releases and when to use it, in one line.
        card: what was released and how, in two or three sentences for the reader of a release.
        reference: where it comes from, and what differs here.
        paper_names: what papers and their code call it, in small letters with hyphens; search words alone.
        family: what it is listed with.
        colour: its colour in every figure; by default the library's methods have theirs by their place in the
            list, so that those of one paper, which are listed together, differ.
        marker: its marker, as matplotlib names it, likewise; crosses are for what is not private.
        options: settings that many people change, with the words that explain each.
    """

    summary: str = ""
    card: str = ""
    reference: str = ""
    paper_names: tuple[str, ...] = ()
    family: str = "Others"
    colour: Colour = FROM_NAME
    marker: str = ""
    options: Mapping[str, str] = field(default_factory=dict)

    def complete(self, name: str, docstring: str | None) -> About:
        """Fill in what was left out, for the method of this name."""
        first = (docstring or "").strip().partition("\n")[0].strip()
        # The same on every machine, also for a method of another package.
        place = list(OWN).index(name) if name in OWN else sum(map(ord, name))
        colour = COLOURS[place % len(COLOURS)] if self.colour == FROM_NAME else self.colour
        marker = self.marker or (_MARKERS[place % len(_MARKERS)] if name in OWN else "8")
        worded = replace(self, summary=self.summary or first, card=self.card or first)
        return replace(worded, colour=colour, marker=marker)


Whole: TypeAlias = Annotated[int, checks.whole]
Positive: TypeAlias = Annotated[float, checks.positive]
NonNegative: TypeAlias = Annotated[float, checks.non_negative]
Moderate: TypeAlias = Annotated[float, checks.moderate]
ModerateOrZero: TypeAlias = Annotated[float, partial(checks.moderate, or_zero=True)]
Fraction: TypeAlias = Annotated[float, checks.fraction]
Rate: TypeAlias = Annotated[float, checks.rate]

Check: TypeAlias = Callable[[str, Any], object]
"""A function of name and value that returns the value, or raises."""


def one_of(*words: str) -> Check:
    """Check that a text is one of these words.

    >>> hint = Annotated[str, one_of("soft", "hard")]
    """
    return partial(checks.one_of, allowed=words)


def check_settings(made: Any) -> None:
    """Check each field of a dataclass instance by the functions in its type."""
    for name, check in _checks_of(made.__class__).items():
        object.__setattr__(made, name, check(name, getattr(made, name)))


@cache
def _checks_of(kind: type) -> dict[str, Check]:
    """By field; a class adds to those of its bases."""
    found: dict[str, Check] = {}
    for one in reversed(kind.__mro__):
        for name, hint in inspect.get_annotations(one, eval_str=True).items():
            for part in (hint, *typing.get_args(hint)):
                for check in filter(callable, getattr(part, "__metadata__", ())):
                    found[name] = check if part is hint else checks.or_none(check)  # in a union with None
    return found
