"""`fedbnsl features`: what predicts a variable."""

from pathlib import Path
from typing import Annotated

import typer

from ..options.learn import FeaturesOptions
from .from_model import taking
from .learn import Engine, Verbose

app = typer.Typer(add_completion=False)


@app.command()
@taking(FeaturesOptions, without=("parameters", "diagnose", "smoothing", "bootstrap"))
def features(
    options: FeaturesOptions,
    folder: Annotated[Path, typer.Argument(help="Federated data set: a folder with one file a silo.")],
    target: Annotated[str, typer.Option(metavar="Y", help="The variable that is to be predicted.")],
    alpha: Annotated[
        float | None,
        typer.Option(metavar="A", help="Significance level of the independence tests; short for -p alpha=A."),
    ] = None,
    engine: Engine = "prefect",
    verbose: Verbose = False,
) -> None:
    """Learn the features that predict a variable: its parents, children and spouses (its Markov blanket).

    They are printed, and written to features.csv in the folder of the results.
    """
    from ..servers.ahead import ahead

    with ahead(engine, quiet=not verbose) as server:
        from ..terminal import features as terminal

        settings = terminal.with_alpha(options, alpha).on(str(folder))
        terminal.features(settings, target, engine=engine, server=server)
