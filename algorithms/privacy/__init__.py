"""Differential privacy: what a release costs, who has spent how much, and the mechanisms that release anything."""
