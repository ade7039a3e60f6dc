"""What a student learns from pictures without a label: its own guesses at weak views, where it is sure.

For a batch of unlabelled pictures let q_b be the student's probabilities for a weak view, of which no
gradient is taken, Q_b those for a strong view, and ŷ_b the likeliest class of q_b. Guesses that are sure
enough are labels for the strong views:

    loss = mean over the batch of [max q_b ≥ threshold of class ŷ_b] · (−log Q_b(ŷ_b)).

**FixMatch** (Sohn et al. 2020) has one threshold, 0.95. **FreeMatch** (Wang et al. 2023) follows the student
with averages that decay by m = 0.999 a batch, all of which start at 1 ÷ classes:

    τ ← m τ + (1 − m) mean max q_b          how sure it is,
    p ← m p + (1 − m) mean q_b              of which classes it thinks,
    h ← m h + (1 − m) histogram of ŷ_b      which classes it names,

and the threshold of a class is τ · p(c) ÷ max p. It adds 0.05 times a term that keeps it from naming few
classes, of the guesses Q_b that are sure enough, with mean P and histogram H of their likeliest classes:

    fairness = Σ_c a_c log b_c,   a ∝ p ÷ h,   b ∝ P ÷ H,   both of sum 1,

which is minus a cross-entropy, as published: it is large in size where what is named and what is thought of
differ. A class that nobody names (H = 0) is left out of b, and so of the sum. If no guess is sure enough,
nothing is learned from the batch.

The averages travel as one vector, (τ, p, h), so that training can stop and go on anywhere.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

THRESHOLD = 0.95
DECAY = 0.999
FAIRNESS = 0.05


def first_averages(classes: int) -> Any:
    """(τ, p, h) before anything was seen: 1 ÷ classes each."""
    import torch

    return torch.full((1 + 2 * classes,), 1 / classes)


def fixmatch(weak: Any, strong: Any, averages: Any) -> tuple[Any, Any]:
    """The loss on unlabelled pictures, and the averages, of which it makes no use.

    Args:
        weak: (pictures, classes) logits of weak views.
        strong: the same of strong views of the same pictures.
        averages: see `first_averages`.
    """
    sure, guesses = weak.detach().softmax(1).max(1)
    return _consistency(strong, guesses, sure >= THRESHOLD), averages


def freematch(weak: Any, strong: Any, averages: Any) -> tuple[Any, Any]:
    """The same with thresholds that adapt and with fairness, and the averages after this batch."""
    import torch

    believed = weak.detach().softmax(1)
    classes = believed.shape[1]
    sure, guesses = believed.max(1)
    seen = torch.cat([sure.mean()[None], believed.mean(0), _histogram(guesses, classes)])
    averages = DECAY * averages + (1 - DECAY) * seen
    overall, thought, named = averages.split([1, classes, classes])
    taken = sure > (overall * thought / thought.max())[guesses]
    fair = _fairness(strong[taken], thought / named)
    return _consistency(strong, guesses, taken) + FAIRNESS * fair, averages


RULES: dict[str, Callable[[Any, Any, Any], tuple[Any, Any]]] = {"fixmatch": fixmatch, "freematch": freematch}


def _consistency(strong: Any, guesses: Any, taken: Any) -> Any:
    """The mean over all pictures, those not taken counting as zeros."""
    import torch

    return (torch.nn.functional.cross_entropy(strong, guesses, reduction="none") * taken).mean()


def _fairness(strong: Any, wanted: Any) -> Any:
    """Σ a log b over the classes that these pictures are named."""
    if not len(strong):
        return strong.sum()  # zero, and with a gradient
    probabilities = strong.softmax(1)
    named = _histogram(probabilities.argmax(1), probabilities.shape[1])
    told = named > 0
    found = probabilities.mean(0)[told] / named[told]
    return (wanted / wanted.sum())[told] @ (found / found.sum()).log()


def _histogram(classes: Any, count: int) -> Any:
    """The share of each class."""
    import torch

    return torch.nn.functional.one_hot(classes, count).float().mean(0)
