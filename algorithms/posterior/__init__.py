"""The posterior over graphs: the scores of families, the sampler of partitions, and the probabilities that follow."""
