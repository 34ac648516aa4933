"""A silo's side of a run: its rows, its journal, its privacy ledger, its keys."""
