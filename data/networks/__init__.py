"""Published networks and data sets: their files, and rows drawn from them."""
