"""Consensus ADMM: learning a DAG by continuous optimisation when each silo keeps its rows."""
