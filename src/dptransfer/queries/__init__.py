"""Deterministic functions of private rows that know their own sensitivity."""

from dptransfer.queries.base import L2Query, ScoreQuery
from dptransfer.queries.class_sums import (
    ClassCounts,
    ClassSums,
    ClassSumsAndCounts,
    RecentredSums,
    WeightedTotal,
)
from dptransfer.queries.confidence import ConfidenceTotal
from dptransfer.queries.evaluation_counts import CorrectCount, EvaluationCounts
from dptransfer.queries.projection_gradient import ProjectionGradient
from dptransfer.queries.second_moments import SecondMoments
from dptransfer.queries.similarity import SimilarityScores
from dptransfer.queries.softmax_gradient import GradientAndExcess, SoftmaxGradient
from dptransfer.queries.votes import LargestVotes, VoteCounts

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
