"""`fedbnsl choose`: the algorithm that `auto` selects for a folder, with reasons and costs, and two alternatives."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedbnsl.algorithms.errors import require

if TYPE_CHECKING:
    from fedbnsl.algorithms.choose import Choice
    from fedbnsl.algorithms.core.schema import FloatArray, Schema
    from fedbnsl.data.federated import FederatedData

MAX_CHOICES = 3
"""the choice and two alternatives"""


def show_choice(folder: Path, epsilon: float | None, *, secure: bool) -> None:
    """Print a summary of the folder, the algorithm that suits it, and its alternatives.

    With an ε, only public facts are printed: the rows are not read. Raises `BadInput` as reading the folder does.
    """
    from rich.table import Table

    from fedbnsl.algorithms import registry
    from fedbnsl.algorithms.choose import choices
    from fedbnsl.data.folder.about import Reading
    from fedbnsl.data.folder.folder import read_folder, read_schema

    from ..terminal.summary import console

    if epsilon is not None:
        require(epsilon > 0, "epsilon", epsilon, "above 0")
    data = None if epsilon is not None else read_folder(folder)
    schema = data.schema if data else read_schema(folder, Reading(private=True))
    out, private = console(), epsilon is not None
    facts = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
    for name, fact in facts_of(schema, data):
        facts.add_row(name, fact)
    out.print(facts)
    found = choices(schema, private=private)[:MAX_CHOICES]
    table = Table("", "algorithm", "why", "sent by all silos", "leaves a silo", show_lines=True)
    for place, one in enumerate(found):
        leaves = registry.entry(one.name).disclosure
        table.add_row(
            "auto" if place == 0 else "or", algorithm_text(one), one.why, communication_estimate(one, schema), leaves
        )
    out.print(table)
    option = f" --epsilon {epsilon:g}" if private else ""
    out.print(f"fedbnsl learn {folder}{option}{' --secure' * secure}", soft_wrap=True)
    if private:
        out.print(
            f"What a run with ε = {epsilon:g} can probably detect: fedbnsl privacy plan {folder} --epsilon {epsilon:g}"
        )


def algorithm_text(choice: Choice) -> str:
    """The algorithm with the parameters that are set for it."""
    return " ".join([choice.name, *(f"-p {key}={value}" for key, value in choice.params.items())])


def facts_of(schema: Schema, data: FederatedData | None) -> list[tuple[str, str]]:
    """The facts on the data before learning; facts on the rows only if `data` are given."""
    from fedbnsl.algorithms.core.schema import pluralize

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
    if schema.gaps:
        facts.append(("empty cells", missing_share(schema)))
    if schema.kind == "time-series":
        breaks = sum(len(stretches) - 1 for stretches in schema.stretches.values())
        facts.append(("gaps", f"{breaks} in the series, where cells are empty or times are missing"))
    return facts if data is None or schema.discrete.all() else [*facts, *scale_ranges(data)]


def missing_share(schema: Schema) -> str:
    """The share of empty cells, in total and in the column with most of them."""
    import numpy as np

    rows = sum(schema.rows.values())
    shares = np.array(list(schema.empty.values())).sum(axis=0) / rows
    most = int(np.argmax(shares))
    largest = f"{schema.variables[most]}, {100 * shares[most]:.2g} %"
    return f"{100 * shares.mean():.2g} % of all; the largest share is in {largest}"


def scale_ranges(data: FederatedData) -> list[tuple[str, str]]:
    """The range of the standard deviations of numeric columns, and of the silos' means."""
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
    """The approximate number of bytes that all silos send, if it is predictable, at 8 per number."""
    from fedbnsl.algorithms.statistics.coding import coding_of

    from ..job.run import format_bytes

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
def choose(
    folder: Annotated[Path, typer.Argument(help="Federated data set: a folder with one file per silo.")],
    epsilon: Annotated[float | None, typer.Option(metavar="E", help="Privacy budget ε of the planned run.")] = None,
    secure: Annotated[bool, typer.Option("--secure", help="Mask the silos' replies, as in `learn`.")] = False,
) -> None:
    """Recommend an algorithm for FOLDER, with reasons and two alternatives; nothing is learned.

    By default (`auto`), `learn` uses the first.

    Example: fedbnsl choose my_folder --epsilon 2
    """
    show_choice(folder, epsilon, secure=secure)
