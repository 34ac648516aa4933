"""`fedbnsl choose`: the algorithm that `auto` selects for a folder, with reasons and costs, and two alternatives."""

from __future__ import annotations

import shlex
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..options.learn import LearnOptions
from .options_from_model import options_from_model

if TYPE_CHECKING:
    from rich.table import Table

    from fedbnsl.algorithms.choose import Choice
    from fedbnsl.algorithms.core.schema import FloatArray, Schema
    from fedbnsl.data.federated import FederatedData

MAX_CHOICES = 3
"""maximum number of algorithms to print: the choice and two alternatives"""
READING_OPTIONS = ("ignore", "only", "by", "missing", "columns", "dates", "time", "cluster", "epsilon", "secure")
"""the options of `learn` on which the choice depends"""


def show_choice(folder: Path, options: LearnOptions) -> None:
    """Print a summary of the folder, the algorithm that suits it, and its alternatives.

    With an ε, only public facts are printed: the rows are not read. Raises `BadInput` as reading the folder does.
    """
    from fedbnsl.algorithms.choose import choices
    from fedbnsl.data.folder.folder import read_folder, read_schema

    from ..job.reading import reading_of
    from ..terminal.console import console, show_rows

    reading = reading_of(options)
    data = None if reading.private else read_folder(folder, reading)
    schema = data.schema if data else read_schema(folder, reading)
    out = console()
    show_rows(facts_of(schema, data))
    for place, one in enumerate(choices(schema, private=reading.private)[:MAX_CHOICES]):
        out.print(f"\n{'auto' if place == 0 else 'or'}: {algorithm_text(one)}", soft_wrap=True)
        out.print(details(one, schema))
    out.print(f"\n{command_of(folder, options)}", soft_wrap=True)
    if options.epsilon is not None:
        epsilon = f"{options.epsilon:g}"
        out.print(
            f"What a run with ε = {epsilon} can probably detect: fedbnsl privacy plan {folder} --epsilon {epsilon}",
            soft_wrap=True,
        )


def details(choice: Choice, schema: Schema) -> Table:
    """The reasons for an algorithm, and what it sends."""
    from rich.table import Table

    from fedbnsl.algorithms import registry

    table = Table(show_header=False, box=None, padding=(0, 2, 0, 2))
    table.add_column(no_wrap=True)
    table.add_column()
    table.add_row("why", choice.why)
    table.add_row("sent by all silos", communication_estimate(choice, schema))
    table.add_row("leaves a silo", registry.entry(choice.name).disclosure)
    table.add_row("levels of owners that allow it", registry.levels_of(registry.entry(choice.name)))
    return table


def command_of(folder: Path, options: LearnOptions) -> str:
    """The command that learns from `folder`, with the options that were given for the choice."""
    words, given = ["fedbnsl", "learn", str(folder)], options.model_dump(exclude_defaults=True)
    for name in READING_OPTIONS:
        value = given.get(name)
        if value is not None:
            text = ",".join(value) if isinstance(value, tuple) else f"{value:g}" if name == "epsilon" else value
            words += [f"--{name}"] if value is True else [f"--{name}", text]
    return shlex.join(words)


def algorithm_text(choice: Choice) -> str:
    """The algorithm with its parameters, in the form of the command line."""
    return " ".join([choice.name, *(f"-p {key}={value}" for key, value in choice.params.items())])


def facts_of(schema: Schema, data: FederatedData | None) -> list[tuple[str, str]]:
    """The facts on the data before learning; facts on the values of rows only if `data` are given."""
    from fedbnsl.algorithms.errors import pluralize
    from fedbnsl.tracking.report.tables import stretches_line

    rows = list(schema.rows.values())
    silos = f"{pluralize(len(rows), 'silo')} of {min(rows):,} to {max(rows):,}"
    facts = [
        ("data", f"{schema.kind}, {pluralize(len(schema.variables), 'variable')}"),
        ("rows", f"{sum(rows):,} in {silos}"),
    ]
    if schema.levels:
        levels = [len(levels) for levels in schema.levels.values()]
        of = f" of {len(levels)}" if schema.kind == "mixed" else ""
        facts.append(("levels", f"{min(levels)} to {max(levels)} a variable{of}"))
    if schema.survival:
        facts.append(("survival", ", ".join(schema.survival) + ": fitted after the graph of the other variables"))
    if schema.gaps:
        facts.append(("empty cells", missing_share(schema)))
    if schema.kind == "time-series":
        facts.append(("series", stretches_line(schema)))
    return facts if data is None or schema.discrete.all() else [*facts, *scale_ranges(data)]


def missing_share(schema: Schema) -> str:
    """The share of empty cells in the whole table, and in the column with the largest share."""
    import numpy as np

    rows = sum(schema.rows.values())
    shares = np.array(list(schema.empty.values())).sum(axis=0) / rows
    most = int(np.argmax(shares))
    largest = f"{schema.variables[most]}, {100 * shares[most]:.2g} %"
    return f"{100 * shares.mean():.2g} % of all; the largest share is in {largest}"


def scale_ranges(data: FederatedData) -> list[tuple[str, str]]:
    """The range of the standard deviations of numeric columns, and the largest distance between means of silos."""
    import numpy as np

    from fedbnsl.algorithms.statistics.moments import column_summaries

    numbers, silos = np.flatnonzero(~data.schema.discrete), data.schema.silos
    names = [data.schema.variables[v] for v in numbers]
    sizes = np.array([data.schema.rows[silo] for silo in silos], np.float64)
    columns = [column_summaries(data.tables[silo]) for silo in silos]
    means, variances = (
        np.stack([getattr(own, figure)[numbers] for own in columns]) for figure in ("means", "variances")
    )
    sd: FloatArray = np.sqrt(sizes @ variances / sizes.sum())
    low, high = int(np.argmin(sd)), int(np.argmax(sd))
    apart = (means.max(axis=0) - means.min(axis=0)) / np.maximum(sd, 1e-300)
    most = int(np.argmax(apart))
    alike = " (all alike, as after standardising)" if sd[high] < 1.05 * sd[low] else ""
    return [
        ("standard deviations", f"{sd[low]:.3g} ({names[low]}) to {sd[high]:.3g} ({names[high]}){alike}"),
        ("silos' means", f"up to {apart[most]:.2g} standard deviations apart ({names[most]})"),
    ]


def communication_estimate(choice: Choice, schema: Schema) -> str:
    """The approximate number of bytes that all silos send, at 8 bytes per number, if it is predictable."""
    from fedbnsl.algorithms.statistics.coding import coding_of
    from fedbnsl.tracking.report.tables import format_bytes

    d, silos = len(schema.variables), len(schema.rows)
    if schema.kind == "mixed":
        columns = coding_of(schema).size
        return f"{format_bytes(8.0 * silos * columns * (columns + 1) / 2)}"
    if choice.name in ("secure-linear", "secure-sum", "dp-covariance"):
        columns = d * 2 if schema.kind == "time-series" else d
        of_lag = " with one lag" if schema.kind == "time-series" else ""
        return f"{format_bytes(8.0 * silos * columns * (columns + 1) / 2)}{of_lag}"
    if choice.name in ("secure-boss", "fed-pc", "fed-fci"):
        sizes = [len(schema.levels[name]) for name in schema.variables]
        counts = sum(a * b for a, b in combinations(sizes, 2))
        return f"{format_bytes(8.0 * silos * counts)} for all pairs of variables, then more as needed"
    return "depends on the number of rounds"


app = typer.Typer(add_completion=False)


@app.command()
@options_from_model(LearnOptions, only=READING_OPTIONS)
def choose(
    options: LearnOptions,
    folder: Annotated[
        Path, typer.Argument(help="Federated data set: a folder with one file per silo, or one file with --by.")
    ],
) -> None:
    """Recommend an algorithm for FOLDER, with reasons and two alternatives; nothing is learned.

    `learn` uses the recommended algorithm by default (`auto`).

    Example: fedbnsl choose my_folder --epsilon 2
    """
    show_choice(folder, options)
