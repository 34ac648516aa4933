"""The console of all commands: tables and lines as wide as the terminal."""

import os
import sys

from rich.console import Console


def console() -> Console:
    """A console for stdout, as wide as the terminal or `COLUMNS`, else 120; brackets are no markup."""
    known = sys.stdout.isatty() or "COLUMNS" in os.environ
    return Console(width=None if known else 120, highlight=False, markup=False, soft_wrap=False)
