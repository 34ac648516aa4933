"""One execution of `learn` with either engine: preparation, rounds and follow-up exchanges."""
