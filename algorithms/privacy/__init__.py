"""Differential privacy: accounting never below the truth, exact noise, audits that try to refute a claim."""
