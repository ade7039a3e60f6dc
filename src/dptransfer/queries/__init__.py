"""Deterministic functions of private rows that know their own sensitivity."""

from dptransfer.queries.base import L2Query, ScoreQuery
from dptransfer.queries.class_sums import ClassCounts, ClassSums, ClassSumsAndCounts
from dptransfer.queries.confidence import ConfidenceTotal
from dptransfer.queries.correct_count import CorrectCount
from dptransfer.queries.evaluation_counts import EvaluationCounts
from dptransfer.queries.gradient_and_excess import GradientAndExcess
from dptransfer.queries.projection_gradient import ProjectionGradient
from dptransfer.queries.recentred_sums import RecentredSums
from dptransfer.queries.second_moments import SecondMoments
from dptransfer.queries.similarity import SimilarityScores
from dptransfer.queries.softmax_gradient import SoftmaxGradient
from dptransfer.queries.votes import LargestVotes, VoteCounts
from dptransfer.queries.weighted_total import WeightedTotal

__all__ = [
    "ClassCounts",
    "ClassSums",
    "ClassSumsAndCounts",
    "ConfidenceTotal",
    "CorrectCount",
    "EvaluationCounts",
    "GradientAndExcess",
    "L2Query",
    "LargestVotes",
    "ProjectionGradient",
    "RecentredSums",
    "ScoreQuery",
    "SecondMoments",
    "SimilarityScores",
    "SoftmaxGradient",
    "VoteCounts",
    "WeightedTotal",
]
