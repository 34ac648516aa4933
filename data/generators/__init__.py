"""Synthetic federated data: linear, nonlinear, mixed and dynamic models, discrete networks, and missing values."""
