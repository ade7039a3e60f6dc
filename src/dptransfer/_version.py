"""The version of both packages: builds, cards, ledgers and the laboratory take it from here."""

__version__ = "0.8.0"
