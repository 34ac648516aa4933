"""`fedbnsl ui`: the user interfaces."""

from typing import Annotated

import typer

app = typer.Typer(add_completion=False)


@app.command()
def ui(
    prefect_port: Annotated[
        int, typer.Option(metavar="PORT", help="Port of the Prefect server; a free one if it is taken.")
    ] = 4200,
    mlflow_port: Annotated[
        int, typer.Option(metavar="PORT", help="Port of the MLflow server; a free one if it is taken.")
    ] = 5000,
) -> None:
    """Start the Prefect and the MLflow user interfaces; Ctrl-C stops both."""
    from ..servers.processes import serve_both

    serve_both(prefect_port, mlflow_port)
