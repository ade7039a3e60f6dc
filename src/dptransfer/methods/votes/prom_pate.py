"""Prompted teachers: a frozen public classifier, re-programmed by each teacher for the private classes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar

from dptransfer.methods.about import TEACHERS, About, Hue, Whole, one_of
from dptransfer.methods.votes.picture_voting import PictureVoting

if TYPE_CHECKING:
    from dptransfer.methods.deep.network import Network
    from dptransfer.methods.deep.prompts import Prompts


@dataclass(frozen=True)
class PromPATE(PictureVoting):
    """Teachers that prompt a frozen public classifier vote on public pictures; a student learns.

    Releases:      noisy votes of all teachers for every class, on every public picture that they are asked
                   about; with a threshold, noisy largest votes first, and votes on the pictures that pass.
    Guarantee:     one GaussianEvent whose multiplier is the smallest that fits the budget; with a threshold
                   two, both for the whole number of tests and answers, used or not.
    Relation:      add/remove one unit, or replace one unit, an example or a person with all theirs; the
                   budget says which relation, the data which unit.
    Sensitivity:   see `VoteCounts` and `LargestVotes`: √(2·questions) and √questions under either relation,
                   since one unit, and its successor, is with one teacher (`methods.votes.voting`).
    Assumes:       declared classes; public pictures; a public number of teachers and a public classifier. A
                   teacher's ballot is a function of its own pictures: its weights, its batches and their
                   order are its own, and its places in passes of one shape do not depend on the others. That
                   the kernels compute what is in one place of a batch without regard to the values in the
                   other places is taken from how they work, and measured on CPU and GPU
                   (`methods.deep.teachers`).
    Reference:     Li et al. (2023), Prom-PATE, with all teachers in one pass; Papernot et al. (2018). Their
                   ε = 1.019 is an expected, data-dependent value that is itself private; the exact price of
                   those steps, 1,000 tests and 684 answers, is ε = 3.178. Every teacher takes the same
                   number of steps here, in the paper as many as its pictures give.

    Attributes:
        inner: side of the square that a picture is squeezed to, with the prompt around it; None for 192 of
            224 parts of the side.
        mask: whether the prompt is the frame around the picture alone, or is added to all of it.
        label_map: how the classifier's own classes become the declared ones: 'random', 'one-layer' or
            'two-layer'; see `methods.deep.prompts`.
    """

    inner: Whole | None = None
    mask: bool = True
    label_map: Annotated[str, one_of("random", "one-layer", "two-layer")] = "one-layer"
    name: ClassVar[str] = "prom-pate"
    about: ClassVar[About] = About(
        summary="Teachers that prompt a frozen classifier vote on public pictures, and a student learns from "
        "noisy votes.",
        card="The private pictures were shared out among teachers, each picture (or person) with one of "
        "them, who learned a frame of pixels and a label map around a frozen public classifier. The "
        "number of teachers that vote for each class was released with Gaussian noise, for a number of "
        "public pictures. The classifier learned from these answers and from public pictures alone.",
        reference=f"{TEACHERS}, Prom-PATE, with a price that depends on no data.",
        family="Teachers",
        colour=Hue.PURPLE,
        marker="*",
        options={"teachers": "How many teachers share the private pictures."},
    )

    def untaught_teachers(self, network: Network, classes: int) -> Prompts:
        """Prompts and label maps around the network."""
        from dptransfer.methods.deep.prompts import Prompts

        return Prompts(network, classes, inner=self.inner, mask=self.mask, label_map=self.label_map)
