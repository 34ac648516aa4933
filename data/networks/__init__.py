"""Published networks and data sets, and rows sampled from them."""
