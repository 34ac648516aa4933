"""The console of all commands: tables and lines as wide as the terminal."""

import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from fedbnsl.algorithms.errors import escape_unprintable
from fedbnsl.tracking.metrics import MetricValue, known_in

if TYPE_CHECKING:
    from fedbnsl.tracking.report.tables import ReportTable


class PlainConsole(Console):
    """A console that prints every text as it is: neither markup nor control sequences in it have an effect.

    Names of silos, columns and labels come from other parties.
    """

    def __init__(self, **settings: Any) -> None:
        super().__init__(highlight=False, markup=False, emoji=False, **settings)

    def render_str(self, text: str, **style: Any) -> Text:
        """`text` for the terminal; rich calls this for every string that it prints, also within a table."""
        return super().render_str(escape_unprintable(text), **style)


def console() -> PlainConsole:
    """A console for stdout, as wide as the terminal or `COLUMNS`; without either, 120 wide."""
    known = sys.stdout.isatty() or "COLUMNS" in os.environ
    return PlainConsole(width=None if known else 120)


def show_scores(metrics: Mapping[str, MetricValue]) -> None:
    """Print the known metrics that the terminal shows, one per line."""
    known = known_in("terminal", metrics).items()
    show_rows((name, f"{value:.4g}" if isinstance(value, float) else str(value)) for name, value in known)


def show_table(shown: "ReportTable") -> None:
    """Print a table; cells without a value are empty."""
    from fedbnsl.tracking.report.tables import display

    show_rows((["" if cell is None else display(cell) for cell in row] for row in shown.rows), shown.header)


def show_rows(rows: Iterable[Iterable[str]], header: Sequence[str] = ()) -> None:
    """Print rows of cells below each other, with a `header` if there is one."""
    table = Table(*header, show_header=bool(header), box=None, padding=(0, 2, 0, 0))
    for row in rows:
        table.add_row(*row)
    console().print(table)
