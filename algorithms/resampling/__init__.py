"""Learning again from rows drawn anew: how sure the edges are."""
