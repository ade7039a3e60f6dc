"""The laboratory: sweeps over data sets, budgets, methods and seeds, and what they show."""
