"""Score-based learning: BDeu and BIC, greedy equivalence search, fusion of networks, best order score search."""
