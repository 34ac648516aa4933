"""`fedbnsl compare`: the differences between a finished run and an earlier one, for the terminal."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from fedbnsl.tracking.comparison import Comparison

MAX_LISTED = 10
"""maximum number of variables to list; the list has the variables with the largest drift"""


def show_comparison(before: Path, after: Path, *, as_json: bool) -> None:
    """Print the differences between the run in the folder `before` and the later run in the folder `after`.

    Raises `BadInput` if a folder has no finished run.
    """
    from fedbnsl.tracking.comparison import changes_by_fate, compare_runs
    from fedbnsl.tracking.metrics import METRICS, known_in
    from fedbnsl.tracking.report.tables import ReportTable

    from ..engines.run_comparison import metrics_in, read_run
    from ..terminal.console import console, show_rows, show_table

    found = compare_runs(read_run(before), read_run(after))
    scores = [known_in("terminal", metrics_in(run)) for run in (before, after)]
    changed_scores = {
        name: (scores[0].get(name), scores[1].get(name))
        for name in METRICS
        if scores[0].get(name) != scores[1].get(name)
    }
    if as_json:
        drift = {"drift_by_variable": found.drift.by_variable} if found.drift else {"no_drift": found.no_drift}
        both = {name: dict(zip(("before", "after"), values, strict=True)) for name, values in changed_scores.items()}
        document = {**found.metrics, **changes_by_fate(found), **drift, "scores": both}
        print(json.dumps(document, indent=1, ensure_ascii=False))
        return
    out = console()
    out.print(found.summary, soft_wrap=True)
    show_rows(_edges(found))
    if changed_scores:
        show_table(ReportTable(("score", "before", "after"), [(name, *both) for name, both in changed_scores.items()]))
    if found.drift is None:
        out.print(f"parameter drift is unknown: {found.no_drift}", soft_wrap=True)
        return
    changed = {name: term for name, term in found.drift.by_variable.items() if term}
    if not changed:
        out.print("no variable's distribution given its parents has changed")
        return
    terms = sorted(changed.items(), key=lambda one: -one[1])[:MAX_LISTED]
    first = f", the largest {MAX_LISTED} of {len(changed)}" if len(changed) > MAX_LISTED else ""
    out.print(f"drift in nats per row{first}:")
    show_rows((name, f"{term:.3g}") for name, term in terms)


def _edges(found: Comparison) -> Iterator[tuple[str, ...]]:
    """The edges that have changed, with their weights in both runs if the graphs have weights."""
    for one in found.structure.changed:
        weights = [f"{value:+.3f}" if value is not None else "–" for value in (one.before, one.after)]
        yield one.fate, one.edge.text, *([f"{weights[0]} → {weights[1]}"] if found.weighted else [])


app = typer.Typer(add_completion=False)


@app.command()
def compare(
    before: Annotated[Path, typer.Argument(metavar="EARLIER", help="Folder of a finished run, such as runs/NAME.")],
    after: Annotated[Path, typer.Argument(metavar="LATER", help="Folder of a later run over the same variables.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print the changes as JSON.")] = False,
) -> None:
    """Compare a run with an earlier one: edges gained, lost and reversed, and parameter drift."""
    show_comparison(before, after, as_json=as_json)
