"""Federated data sets: made, downloaded with a package, split, read, written and checked."""
