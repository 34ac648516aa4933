"""Splitting a table among silos."""
