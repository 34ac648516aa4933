"""Runs in MLflow: parameters, rounds, pictures, models."""
