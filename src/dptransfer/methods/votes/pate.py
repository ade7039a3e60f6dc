"""Teachers from scratch: PATE as it was before public networks, to show what these are worth."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from dptransfer.methods.about import About, Hue
from dptransfer.methods.votes.picture_voting import PictureVoting

if TYPE_CHECKING:
    from dptransfer.methods.deep.network import Network
    from dptransfer.methods.deep.small_teachers import SmallTeachers


@dataclass(frozen=True)
class PATE(PictureVoting):
    """Small networks trained from scratch vote on public pictures; a student learns.

    Releases:      noisy votes of all teachers for every class, on every public picture that they are asked
                   about; with a threshold, noisy largest votes first, and votes on the pictures that pass.
    Guarantee:     one GaussianEvent whose multiplier is the smallest that fits the budget; with a threshold
                   two, both for the whole number of tests and answers, used or not.
    Relation:      add/remove one unit, or replace one unit, an example or a person with all theirs; the
                   budget says which relation, the data which unit.
    Sensitivity:   see `VoteCounts` and `LargestVotes`: √(2·questions) and √questions under either relation,
                   since one unit, and its successor, is with one teacher (`methods.votes.voting`).
    Assumes:       declared classes; public pictures; a public number of teachers. A teacher's ballot is a
                   function of its own pictures, as `PromPATE` says and measures; teachers learn on the CPU
                   whatever the device (`methods.deep.small_teachers`).
    Reference:     Papernot et al. (2017, 2018), whose teachers are larger, and trained one after the other;
                   the ablation of Li et al. (2023), Table 3, E and F.

    Attributes:
        epochs: as for all teachers on pictures, but more of them: from scratch there is more to learn.
            Chosen on the ten largest classes of Caltech-101, among 10 and 30.
        rate: likewise, among 0.003, 0.01, 0.02 and 0.05.
    """

    epochs: float = 30.0
    rate: float = 0.01
    name: ClassVar[str] = "pate"
    about: ClassVar[About] = About(
        summary="Small networks from scratch as teachers that vote on public pictures: for comparison.",
        card="The private pictures were shared out among teachers, each picture (or person) with one of "
        "them, who trained a small network from scratch. The number of teachers that vote for each "
        "class was released with Gaussian noise, for a number of public pictures. The classifier learned "
        "from these answers and from public pictures alone.",
        reference="Papernot, Song, Mironov, Raghunathan, Talwar, Erlingsson: Scalable Private Learning with "
        "PATE (ICLR 2018), with a price that depends on no data.",
        family="Teachers",
        colour=Hue.BROWN,
        marker="*",
        options={"teachers": "How many teachers share the private pictures."},
    )
    in_one_pass: ClassVar[tuple[int, int]] = (16, 16)

    def untaught_teachers(self, network: Network, classes: int) -> SmallTeachers:
        """Networks of their own; the encoder's, and the device, are the student's alone."""
        from dptransfer.methods.deep.small_teachers import SmallTeachers

        return SmallTeachers(classes)
