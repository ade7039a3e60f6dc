"""Similarity scores about persons with planted bugs, which every check of a person's bound must catch."""

from dptransfer.exact.capped_similarity import LARGEST_WEIGHT
from dptransfer.queries import SimilarityScores


class EachRowInFull(SimilarityScores):
    """Rows are bounded singly, whoever they are from."""

    def of_people(self, rows, labels, people):
        return LARGEST_WEIGHT * self.of_rows(rows, labels)


class EachClassByItself(SimilarityScores):
    """A person has one range for each class, and not one for all."""

    def of_people(self, rows, labels, people):
        return super().of_people(rows, labels, people * self.classes + labels)
