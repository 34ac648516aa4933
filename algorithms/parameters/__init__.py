"""The parameters of a learned structure, from sums over the silos: probability tables, or weights and variances."""
