"""Uses of a finished run: effects, queries, simulated rows, predictions, and scores of a graph edited by hand."""
