"""Uses of the model of a finished run: effects, queries, simulated rows and predictions."""
