"""What the model of a finished run says: effects, queries, simulated rows and predictions."""
