"""Prefect tasks, and the silo runtime that Dask workers run."""
