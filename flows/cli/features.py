"""`fedbnsl features`: the Markov blanket of a target variable, learned over the silos (Wang, Ma & Wang 2023, §7.5)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedbnsl.algorithms.errors import BadInput

from ..options.learn import Algorithm, LearnOptions, LearnSettings
from ..servers.processes import Ready
from .learn import Engine, Verbose, learn_and_show
from .options_from_model import options_from_model

if TYPE_CHECKING:
    from fedbnsl.algorithms.core.schema import Schema
    from fedbnsl.algorithms.graphs.markov_blanket import MarkovBlanket
    from fedbnsl.data.federated import FederatedData

FILE = "features.csv"


def learn_features(settings: LearnSettings, target: str, *, engine: str, server: Ready | None = None) -> None:
    """Learn with `settings`; print and write the Markov blanket of `target` in the learned graph."""
    from fedbnsl.algorithms.graphs.markov_blanket import markov_blanket

    from ..job.run import outcome_text
    from ..terminal.console import console

    def check(settings: LearnSettings, data: FederatedData | None) -> None:
        if data is not None:
            check_features(settings, data.schema, target)

    finished = learn_and_show(settings, engine=engine, server=server, check=check)
    blanket = markov_blanket(finished.result.structure, target)
    write(finished.folder / FILE, blanket)
    show(finished.result.structure.variables, target, blanket)
    console().print(outcome_text(finished.result), soft_wrap=True)
    console().print(f"features: {finished.folder / FILE}", soft_wrap=True)
    console().print(f"report: {finished.files['report.html']}", soft_wrap=True)


def check_features(settings: LearnSettings, schema: Schema, target: str) -> None:
    """Raise `BadInput`, before anything is learned, for an unknown target or an algorithm that learns a PAG."""
    from fedbnsl.algorithms import registry
    from fedbnsl.algorithms.graphs.markov_blanket import markov_blanket

    from ..job.check import algorithm_spec

    algorithm = registry.build(algorithm_spec(settings, schema))
    markov_blanket(algorithm.structure(algorithm.open_server(schema)), target)


def with_alpha(options: LearnOptions, alpha: float | None) -> LearnOptions:
    """`options` with tests of level `alpha`; raises `BadInput` if the algorithm makes no tests."""
    from fedbnsl.algorithms import registry

    if alpha is None:
        return options
    if "alpha" not in registry.parameter_names(options.algorithm):
        tests = [name for name in registry.ALGORITHMS if "alpha" in registry.parameter_names(name)]
        raise BadInput(
            f"--alpha is {alpha:g}, but {options.algorithm} makes no independence tests; "
            f"algorithms with tests: {', '.join(tests)}"
        )
    return options.model_copy(update={"params": {**options.params, "alpha": alpha}})


def feature_rows(blanket: MarkovBlanket) -> list[tuple[str, str]]:
    """The features, each with its relation to the target."""
    roles = {
        "parent": blanket.parents,
        "child": blanket.children,
        "parent or child": blanket.neighbours,
        "spouse": blanket.spouses,
    }
    return [(name, role) for role, names in roles.items() for name in names]


def write(path: Path, blanket: MarkovBlanket) -> None:
    """Write the features as `variable,role`; the file appears only when it is complete."""
    from fedbnsl.tracking.report.files import csv_text
    from fedbnsl.tracking.staging import replace_private

    replace_private(path, csv_text(("variable", "role"), feature_rows(blanket)).encode())


def show(variables: tuple[str, ...], target: str, blanket: MarkovBlanket) -> None:
    """Print the features."""
    from ..terminal.console import console, show_rows

    console().print(f"{len(blanket.all)} of {len(variables) - 1} variables are the Markov blanket of {target}:")
    show_rows(feature_rows(blanket))


app = typer.Typer(add_completion=False)


class FeaturesOptions(LearnOptions):
    """The options of learning the Markov blanket of one variable."""

    algorithm: Algorithm = "fed-pc"
    parameters: bool = False
    diagnose: bool = False


@app.command()
@options_from_model(FeaturesOptions, without=("parameters", "diagnose", "smoothing", "small_cells", "bootstrap"))
def features(
    options: FeaturesOptions,
    folder: Annotated[Path, typer.Argument(help="Federated data set: a folder with one file per silo.")],
    target: Annotated[str, typer.Option(metavar="Y", help="The variable to predict.")],
    alpha: Annotated[
        float | None,
        typer.Option(metavar="A", help="Significance level of the independence tests; short for -p alpha=A."),
    ] = None,
    engine: Engine = "prefect",
    verbose: Verbose = False,
) -> None:
    """Find the features that predict a variable: its parents, children and spouses (its Markov blanket).

    These features are printed, and written to features.csv in the results folder.
    """
    from ..servers.environment import prestart

    with prestart(engine, quiet=not verbose) as server:
        settings = with_alpha(options, alpha).with_data(folder)
        learn_features(settings, target, engine=engine, server=server)
