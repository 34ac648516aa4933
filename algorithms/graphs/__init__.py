"""Graphs: DAGs, CPDAGs and PAGs, learned structures, and metrics that compare two structures."""
