"""Synthetic federated data: linear models, random discrete networks, hidden variables."""
