"""`fedbnsl ui`: the user interfaces."""

from typing import Annotated

import typer

app = typer.Typer(add_completion=False)


@app.command()
def ui(
    prefect_port: Annotated[
        int, typer.Option(metavar="PORT", help="Port of the Prefect server; if it is in use, another one is chosen.")
    ] = 4200,
    mlflow_port: Annotated[
        int, typer.Option(metavar="PORT", help="Port of the MLflow server; if it is in use, another one is chosen.")
    ] = 5000,
) -> None:
    """Start the web interfaces of Prefect and MLflow; Ctrl-C stops both.

    Servers of your own are used, and not stopped.
    """
    from ..servers.environment import prepare_environment
    from ..servers.processes import serve_both

    prepare_environment()
    serve_both(prefect_port, mlflow_port)
