"""What has changed from one finished run to another, for the terminal."""

import json
from pathlib import Path

from rich.table import Table

from fedbnsl.tracking.comparison import Comparison, compared, named_changes

from ..job.past_run import read_run
from .listing import console

MOST = 10
"""variables listed, those that have drifted most"""


def show_comparison(before: Path, after: Path, *, as_json: bool) -> None:
    """Print how the run in the folder `after` differs from that in `before`; raises `BadInput` for what is no run."""
    found = compared(read_run(before), read_run(after))
    if as_json:
        drift = {"drift_by_variable": found.drift.by_variable} if found.drift else {"no_drift": found.no_drift}
        print(json.dumps({**found.metrics, **named_changes(found), **drift}, indent=1, ensure_ascii=False))
        return
    out = console()
    out.print(found.said, soft_wrap=True)
    out.print(_edges(found))
    if found.drift is None:
        out.print(f"parameter drift is not known: {found.no_drift}", soft_wrap=True)
        return
    terms = sorted(found.drift.by_variable.items(), key=lambda one: -one[1])[:MOST]
    table = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
    for name, term in terms:
        table.add_row(name, f"{term:.3g}")
    out.print("drift in nats a row, the most first:" if len(found.drift.by_variable) > MOST else "drift in nats a row:")
    out.print(table)


def _edges(found: Comparison) -> Table:
    """Return the edges that have changed, with their weights then and now where there are such."""
    table = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
    for one in found.structure.changed:
        weights = [f"{value:+.3f}" if value is not None else "–" for value in (one.before, one.after)]
        table.add_row(one.fate, one.edge.text, *([f"{weights[0]} → {weights[1]}"] if found.weighted else []))
    return table
