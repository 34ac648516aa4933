"""`fedbnsl rescore`: compare a graph that was edited by hand with the graph that a run learned, over the same silos."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from ..inference.rescore import Rescored


def show(found: Rescored) -> None:
    """Print the figures of both graphs, then the assumptions and findings of the edited graph."""
    from fedbnsl.tracking.report.sections import finding_lines
    from fedbnsl.tracking.report.tables import display

    from ..terminal.console import console, show_rows

    figures = ((name, display(learned), display(edited)) for name, learned, edited in found.rows)
    show_rows(figures, ("", "learned", "edited"))
    out = console()
    model = found.edited.parameters
    out.print(f"{'parameters' if model.network is not None else 'no parameters'}: {model.how}", soft_wrap=True)
    for line in (*found.edited.basis, *found.edited.fit.lines, *finding_lines(found.edited)):
        out.print(line, soft_wrap=True)


app = typer.Typer(add_completion=False)


@app.command()
def rescore(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a finished run, such as runs/NAME.")],
    edges: Annotated[
        Path,
        typer.Option(metavar="FILE", help="CSV file of the edited graph, like structure.csv: source,target[,type]."),
    ],
    data: Annotated[Path, typer.Option(metavar="FOLDER", help="The run's data: a folder with one file per silo.")],
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="New folder for model and report of the edited graph.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the figures of both graphs as JSON.")] = False,
) -> None:
    """Score a graph that was edited by hand, and show its fit and scores beside those of the learned graph.

    The parameters, the assumptions and the diagnosis of the edited graph are printed, too.

    Example: fedbnsl rescore runs/NAME --edges edited.csv --data study
    """
    from fedbnsl.tracking.outputs import write_outputs
    from fedbnsl.tracking.report.files import json_text

    from ..api.loading import load
    from ..inference.rescore import rescore as compared
    from ..start import check_out

    if out is not None:
        check_out(out)
    found = compared(load(run).result, edges, data)
    if out is not None:
        write_outputs(found.edited, out)
    if as_json:
        figures = {name: {"learned": learned, "edited": edited} for name, learned, edited in found.rows}
        print(json.dumps(json.loads(json_text(figures)), indent=1, ensure_ascii=False))
    else:
        show(found)
