"""The console of all commands: tables and lines as wide as the terminal."""

import os
import sys

from rich.console import Console


def console() -> Console:
    """A console for stdout; its width is that of the terminal or `COLUMNS`, otherwise 120. Brackets are not markup."""
    known = sys.stdout.isatty() or "COLUMNS" in os.environ
    return Console(width=None if known else 120, highlight=False, markup=False, soft_wrap=False)
