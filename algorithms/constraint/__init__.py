"""Constraint-based learning: federated independence tests, PC and FCI over them, and what they are compared with."""
