"""From events to numbers: the exact curve, composition, calibration, and the attacker's view."""

from dptransfer.accounting.attack import area_ceiling, membership_advantage, rate_ceilings, true_positive_rate
from dptransfer.accounting.budget_warnings import LARGEST_EPSILON, heed
from dptransfer.accounting.calibrate import (
    fits,
    largest_times,
    noise_multiplier_for,
    selection_epsilon_for,
    smallest_noise,
)
from dptransfer.accounting.compose import (
    composition_words,
    delta_of,
    epsilon_of,
    guarantee_of,
    is_gaussian,
    mu_of,
    pure_epsilon_of,
    quick_delta_of,
    rho_of,
)
from dptransfer.accounting.filters import Requests, Rule, gdp_price
from dptransfer.accounting.gaussian import delta_of_mu, epsilon_of_mu, mu_for, mu_with_slack
from dptransfer.accounting.pure import selection_delta, selection_rho
from dptransfer.accounting.renyi import halting_probability, mean_trials_of

__all__ = [
    "LARGEST_EPSILON",
    "Requests",
    "Rule",
    "area_ceiling",
    "composition_words",
    "delta_of",
    "delta_of_mu",
    "epsilon_of",
    "epsilon_of_mu",
    "fits",
    "gdp_price",
    "guarantee_of",
    "halting_probability",
    "heed",
    "is_gaussian",
    "largest_times",
    "mean_trials_of",
    "membership_advantage",
    "mu_for",
    "mu_of",
    "mu_with_slack",
    "noise_multiplier_for",
    "pure_epsilon_of",
    "quick_delta_of",
    "rate_ceilings",
    "rho_of",
    "selection_delta",
    "selection_epsilon_for",
    "selection_rho",
    "smallest_noise",
    "true_positive_rate",
]
