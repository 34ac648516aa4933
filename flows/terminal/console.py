"""The console of all commands: tables and lines as wide as the terminal."""

import os
import sys
from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.table import Table


def console() -> Console:
    """A console for stdout, as wide as the terminal or `COLUMNS`; without either, 120 wide. Brackets are not markup."""
    known = sys.stdout.isatty() or "COLUMNS" in os.environ
    return Console(width=None if known else 120, highlight=False, markup=False, soft_wrap=False)


def show_scores(scores: Mapping[str, Any]) -> None:
    """Print the known scores, one per line."""
    table = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
    for key, value in scores.items():
        if value is not None:
            table.add_row(key, f"{value:.4g}" if isinstance(value, float) else str(value))
    console().print(table)
