"""`fedbnsl features`: the Markov blanket of a target variable, learned over the silos (Wang, Ma & Wang 2023, §7.5)."""

import csv
import os
from pathlib import Path

from rich.table import Table

from fedbnsl.algorithms import registry
from fedbnsl.algorithms.core.schema import Schema
from fedbnsl.algorithms.errors import BadInput
from fedbnsl.algorithms.graphs.markov_blanket import MarkovBlanket, markov_blanket
from fedbnsl.data.federated import FederatedData

from ..job.spec import spec_of
from ..options.learn import LearnOptions, LearnSettings
from ..servers.processes import Ready
from .learn import learned
from .listing import console

FILE = "features.csv"


def features(settings: LearnSettings, target: str, *, engine: str, server: Ready | None = None) -> None:
    """Learn as `settings` say; print and write the Markov blanket of `target` in the learned graph."""

    def check(settings: LearnSettings, data: FederatedData | None) -> None:
        if data is not None:
            refuse(settings, data.schema, target)

    finished = learned(settings, engine=engine, server=server, check=check)
    blanket = markov_blanket(finished.result.structure, target)
    write(finished.folder / FILE, blanket)
    show(finished.result.structure.variables, target, blanket)
    console().print(f"{finished.result.outcome} after {finished.result.metrics['rounds']} rounds", soft_wrap=True)
    console().print(f"features: {finished.folder / FILE}", soft_wrap=True)
    console().print(f"report: {finished.files['report.html']}", soft_wrap=True)


def refuse(settings: LearnSettings, schema: Schema, target: str) -> None:
    """Raise `BadInput`, before anything is learned, for an unknown target or an algorithm that learns a PAG."""
    algorithm = registry.build(spec_of(settings, schema))
    markov_blanket(algorithm.structure(algorithm.open_server(schema)), target)


def with_alpha(options: LearnOptions, alpha: float | None) -> LearnOptions:
    """Return `options` with tests of level `alpha`; raises `BadInput` if the algorithm makes no tests."""
    if alpha is None:
        return options
    if "alpha" not in registry.parameter_names(options.algorithm):
        tests = [name for name in registry.ALGORITHMS if "alpha" in registry.parameter_names(name)]
        raise BadInput(
            f"--alpha is {alpha:g}, but {options.algorithm} makes no tests; those that do: {', '.join(tests)}"
        )
    return options.model_copy(update={"params": {**options.params, "alpha": alpha}})


def rows(blanket: MarkovBlanket) -> list[tuple[str, str]]:
    """Return the features with what each is to the target."""
    roles = {
        "parent": blanket.parents,
        "child": blanket.children,
        "parent or child": blanket.neighbours,
        "spouse": blanket.spouses,
    }
    return [(name, role) for role, names in roles.items() for name in names]


def write(path: Path, blanket: MarkovBlanket) -> None:
    """Write the features as `variable,role`; the file appears only when it is complete."""
    beside = path.with_name(f".{path.name}")
    with beside.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(("variable", "role"))
        writer.writerows(rows(blanket))
    os.replace(beside, path)


def show(variables: tuple[str, ...], target: str, blanket: MarkovBlanket) -> None:
    """Print the features."""
    out = console()
    out.print(f"{len(blanket.all)} of {len(variables) - 1} variables tell all there is to know of {target}:")
    table = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
    for name, role in rows(blanket):
        table.add_row(name, role)
    out.print(table)
