"""Synthetic federated data: linear models, discrete networks, surrogate variables, hidden variables."""
