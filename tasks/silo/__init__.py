"""A silo's side of a run: a service with its rows, its journal, its privacy ledger and its keys."""
