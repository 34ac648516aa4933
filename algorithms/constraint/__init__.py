"""Constraint-based learning: federated independence tests, and PC and FCI that are built on them."""
