"""One execution of `learn`, whatever the engine: the rounds, and all that follows them."""
