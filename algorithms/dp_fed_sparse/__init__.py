"""DP-Fed-Sparse-BNSL: private greedy coordinate descent in every silo, each with a privacy budget of its own."""
