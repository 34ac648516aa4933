"""Differential privacy: conservative accounting, exact noise, and disclosure control of exact counts."""
