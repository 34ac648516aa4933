"""`fedbnsl algorithms`: what there is to choose from."""

from typing import Annotated

import typer

from .completion import one_algorithm

app = typer.Typer(add_completion=False)


@app.command()
def algorithms(
    name: Annotated[
        str | None, typer.Argument(help="An algorithm, whose page is shown.", autocompletion=one_algorithm)
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print it as JSON.")] = False,
) -> None:
    """List the algorithms: what each is, and exactly what leaves a silo.

    With a NAME, show the page of that algorithm: also its presets, and what its parameters mean.
    """
    from ..terminal.algorithms import show_algorithm, show_algorithms

    if name is None:
        show_algorithms(as_json=as_json)
    else:
        show_algorithm(name, as_json=as_json)
