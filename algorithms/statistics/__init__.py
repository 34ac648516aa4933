"""Sufficient statistics: what silos compute from their rows and add up, and how sums are packed into vectors."""
