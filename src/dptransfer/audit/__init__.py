"""Checks that never become releases: attacks, each example's own loss, ε bounded from below."""

from dptransfer.accounting import area_ceiling, rate_ceilings
from dptransfer.audit.instance_loss import InstanceLosses, has_instance_losses, instance_losses
from dptransfer.audit.lower_bound import audited_epsilon, counted_epsilon, excess_over_claim, gaussian_epsilon
from dptransfer.audit.membership import (
    MembershipResult,
    OperatingPoint,
    membership_attack,
    score_losses,
    smaller_share,
)

__all__ = [
    "InstanceLosses",
    "MembershipResult",
    "OperatingPoint",
    "area_ceiling",
    "audited_epsilon",
    "counted_epsilon",
    "excess_over_claim",
    "gaussian_epsilon",
    "has_instance_losses",
    "instance_losses",
    "membership_attack",
    "rate_ceilings",
    "score_losses",
    "smaller_share",
]
