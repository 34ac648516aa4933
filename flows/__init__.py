"""Prefect flows, their settings, deployments and the command line."""
