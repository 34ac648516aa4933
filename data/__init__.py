"""Federated data sets: folders, generators, published networks, recordings and splitting."""
