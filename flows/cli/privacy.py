"""`fedbnsl privacy plan`: the predicted accuracy of a run with a privacy budget, before the run spends the budget.

`fedbnsl privacy ledger`: the ε that the silos of a folder have spent.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedbnsl.algorithms.errors import BadInput

from ..options.learn import LearnOptions
from .options_from_model import options_from_model

if TYPE_CHECKING:
    from rich.table import Table

    from fedbnsl.algorithms.constraint.orientation import ConstraintMethod
    from fedbnsl.algorithms.core.promise import Charge
    from fedbnsl.algorithms.core.schema import Schema
    from fedbnsl.algorithms.privacy.zcdp import Forecast, Shares


def _charges_in(folder: Path) -> tuple[Schema, dict[str, tuple[Charge, ...]]]:
    """The schema of the silos of `folder`, and the charges of each."""
    from fedbnsl.data.folder.folder import read_schema, silo_files
    from fedbnsl.tasks.silo.ledger import ledger_of

    return read_schema(folder), {silo: ledger_of(path, silo).charges() for silo, path in silo_files(folder).items()}


def _charges_of_rows(rows: Path) -> tuple[Schema, dict[str, tuple[Charge, ...]]]:
    """The schema of one silo's rows, and the charges in the ledgers beside them, by the silo's name in a federation."""
    from fedbnsl.data.folder.about import Reading
    from fedbnsl.data.folder.folder import read_schema
    from fedbnsl.data.folder.formats import silo_of
    from fedbnsl.tasks.silo.ledger import LEDGER_SUFFIX, FileLedger
    from fedbnsl.tasks.silo.private_folder import private_folder

    files = sorted(private_folder(rows).glob(f"*{LEDGER_SUFFIX}"))
    schema = read_schema(rows.parent, Reading(silos=(silo_of(rows),)))
    return schema, {path.stem: FileLedger(path).charges() for path in files}


def show_ledger(folder: Path, delta: float) -> None:
    """Print the privacy budget that every silo of `folder` has spent, by run and in total.

    If `folder` is the file of a silo's rows, as in a federation, the ledgers beside it count under any name of a silo.
    """
    from rich.table import Table

    from fedbnsl.algorithms.privacy.zcdp import delta_for
    from fedbnsl.tracking.result import NOT_COVERED

    from ..terminal.console import console

    schema, ledgers = _charges_of_rows(folder) if folder.is_file() else _charges_in(folder)
    delta = delta_for(delta, schema)
    out = console()
    if not any(ledgers.values()):
        out.print(f"{folder}: no ε has been spent on these rows")
        return
    table = Table("silo", "run", "releases", "ρ", f"ε at δ = {delta:.3g}", "what")
    for silo, charges in ledgers.items():
        for run in dict.fromkeys(charge.run for charge in charges):
            _add(table, silo, run, tuple(charge for charge in charges if charge.run == run), delta)
        _add(table, silo, "all runs", charges, delta, last=True)
    out.print(table)
    out.print("Not covered by ε: " + "; ".join(NOT_COVERED) + ".", soft_wrap=True)


def _add(table: Table, silo: str, run: str, charges: tuple[Charge, ...], delta: float, *, last: bool = False) -> None:
    from fedbnsl.algorithms.privacy.ledger import spent

    kinds = Counter(charge.what for charge in charges)
    what = ", ".join(f"{times} × {kind}" if times > 1 else kind for kind, times in kinds.items())
    broken = {charge.broken for charge in charges} - {""}
    epsilon = f"∞, NOT PRIVATE: {', '.join(sorted(broken))}" if broken else f"{spent(charges, delta):.4g}"
    rho = sum(charge.rho for charge in charges)
    table.add_row(silo, run, str(len(charges)), f"{rho:.5g}", epsilon, "" if last else what, end_section=last)


TRUSTED_SILOS = "two thirds of the silos, not the coordinator"
# Noncentrality at which a χ² test with one degree of freedom and level 5 % has a power of 90 %.
NONCENTRALITY = 10.5
# K₁(p)·K₁(q) of two binary variables with even odds. Times the noise variance per row, K₁(p)·K₁(q) is the contribution
# of the noise to the test statistic (`noisy_table_tests.py`).
EVEN_ODDS = 4.0
SERIES_NOTE = (
    "Time series: one record is one window of lags + 1 rows. With one lag, as here, a row is in 2 windows. "
    "-p protect=row protects a row in all its windows. -p protect=stretch protects an unbroken series as a whole. "
    "Both need more noise."
)


def show_plan(folder: Path, epsilon: float, delta: float) -> None:
    """Print the noise and the predicted accuracy of each private algorithm, and recommend one."""
    from fedbnsl.algorithms.core.promise import ReplaceOne
    from fedbnsl.algorithms.privacy.zcdp import budget, delta_for, gaussian_sigma
    from fedbnsl.data.folder.about import Reading
    from fedbnsl.data.folder.folder import read_schema
    from fedbnsl.tracking.result import NOT_COVERED

    from ..terminal.console import console

    schema = read_schema(folder, Reading(private=True))
    delta = delta_for(delta, schema)
    cost = budget(epsilon, delta, ReplaceOne)
    out = console()
    d, silos, rows = len(schema.variables), len(schema.rows), sum(schema.rows.values())
    out.print(
        f"{d} variables, {silos} silos, {rows} rows; ε = {epsilon:g}, "
        f"δ = {delta:.3g}, ρ = {cost.rho:.5g} (zCDP, {ReplaceOne.label}, per record). Nothing is spent by this plan."
    )
    out.print(
        "If a single Gaussian release spends all of it, the standard deviation of the noise is "
        f"{1 / math.sqrt(2 * cost.rho):.4g} times the release's sensitivity. Under any accounting, it is at least "
        f"{gaussian_sigma(1.0, epsilon, delta):.4g} times (analytic Gaussian mechanism)."
    )
    best = _of_labels(schema, epsilon, delta) if schema.kind == "discrete" else _of_numbers(schema, epsilon, delta)
    if best is None:
        out.print("Too few rows for this budget: use a larger ε, or more rows.")
    else:
        out.print(f"recommended: fedbnsl learn {folder} --algorithm {best} --epsilon {epsilon:g}", soft_wrap=True)
    out.print("Not covered by ε: " + "; ".join(NOT_COVERED) + ".", soft_wrap=True)


def _of_numbers(schema: Schema, epsilon: float, delta: float) -> str | None:
    """Print the table of the algorithms for numbers; return the recommended algorithm, or None if all refuse."""
    from rich.table import Table

    from fedbnsl.algorithms import registry
    from fedbnsl.algorithms.moments import secure_sum

    from ..terminal.console import console

    table = Table("algorithm", "who must be trusted", "noise", "error of a weight", "smallest weight likely found")
    found = []
    for name, plan, trusted in (
        ("secure-sum", secure_sum.secure_sum_plan, TRUSTED_SILOS),
        ("dp-covariance", secure_sum.dp_covariance_plan, "nobody"),
        ("dp-fed-sparse", None, "nobody"),
    ):
        if schema.kind not in registry.entry(name).kinds:
            continue
        one = forecast_of(name, plan, schema, epsilon, delta)
        if one is None:
            table.add_row(name, trusted, "refused: too few rows", "", "")
        else:
            found.append(one)
            table.add_row(name, trusted, f"{one.noise:.3g}", f"{one.weight_error:.3g}", f"{one.smallest:.3g}")
    console().print(table)
    console().print("Noise: standard deviation in a second moment; for dp-fed-sparse, in a step of a weight.")
    _print_price_of_a_silo("secure-sum", len(schema.rows))
    if schema.kind == "time-series":
        console().print(SERIES_NOTE, soft_wrap=True)
    console().print(
        "Units: every variable has mean square 1. Edges with weights below the threshold τ are dropped, too."
    )
    if not found:
        return None
    return found[0].algorithm if len(schema.rows) > 1 else min(found, key=lambda one: one.weight_error).algorithm


def forecast_of(
    name: str, plan: Callable[[Any, Schema], Shares] | None, schema: Schema, epsilon: float, delta: float
) -> Forecast | None:
    """The expected accuracy of the algorithm `name` with its default settings; None if it would refuse the budget.

    `plan` gives the noise of an algorithm that learns from second moments; any other algorithm states its own noise.
    """
    from fedbnsl.algorithms import registry
    from fedbnsl.algorithms.moments.summed import noise_level
    from fedbnsl.algorithms.privacy.zcdp import forecast

    spec = registry.specify(name, epsilon=epsilon, delta=delta)
    settings, algorithm = spec.settings, registry.build(spec)
    try:
        server = algorithm.open_server(schema)
    except BadInput:
        return None
    d, silos, rows = len(schema.variables), len(schema.rows), sum(schema.rows.values())
    if plan is None:
        return forecast(name, d, rows, algorithm.measures(server)["noise"])
    summed, shares = settings.columns(schema), plan(settings, schema)
    d, rows = len(summed.variables), sum(summed.rows.values())
    return forecast(name, d, rows, noise_level(shares, d, silos, rows, settings.clip_for(schema, shares)))


def _print_price_of_a_silo(name: str, silos: int) -> None:
    """Print the cost of protection from a silo that knows its own share of the noise."""
    from fedbnsl.algorithms.privacy.zcdp import guaranteed_shares

    from ..terminal.console import console

    if silos > 1:
        more = guaranteed_shares(silos, 0)[0] / guaranteed_shares(silos, 1)[0]
        console().print(
            f"The noise of {name} hides a record from the other silos, too. It has {more:.3g} times the variance that "
            "hides a record from the coordinator alone (-p colluders=0).",
            soft_wrap=True,
        )


def _of_labels(schema: Schema, epsilon: float, delta: float) -> str | None:
    """Print the table of the algorithms for labels; return the recommended one, or None if it would find too little."""
    from rich.table import Table

    from fedbnsl.algorithms.constraint.orientation import FCI, PC

    from ..terminal.console import console

    table = Table("algorithm", "who must be trusted", "noise in a count", "weakest dependence likely found (V)")
    weakest = []
    for name, method in (("fed-pc", PC), ("fed-fci", FCI)):
        noise = noise_in_counts(schema, method, epsilon, delta)
        weakest.append(weakest_dependence(sum(schema.rows.values()), noise))
        table.add_row(name, TRUSTED_SILOS, f"{noise:.3g}", f"{weakest[-1]:.3g}")
    console().print(table)
    console().print(
        "Noise and V are those of the first exchange, for pairs of variables. Later tests, given further variables, "
        "have more noise.",
        soft_wrap=True,
    )
    _print_price_of_a_silo("fed-pc", len(schema.rows))
    console().print(
        "V: Cramér's V of two variables with two equally frequent levels each. Weaker edges are probably missed.",
        soft_wrap=True,
    )
    return "fed-pc" if weakest[0] < 1 else None


def noise_in_counts(schema: Schema, method: ConstraintMethod, epsilon: float, delta: float) -> float:
    """The standard deviation of the noise in a count of the first exchange, which has the tables of all pairs."""
    from fedbnsl.algorithms.constraint import fed_pc

    settings = fed_pc.FederatedSettings(epsilon=epsilon, delta=delta)
    levels = [len(schema.levels[name]) for name in schema.variables]
    tables = len(levels) * (len(levels) - 1) // 2
    cells = (sum(levels) ** 2 - sum(one**2 for one in levels)) // 2
    each = fed_pc.privacy_plan(settings, method, schema.rows).variance(tables, cells)
    return math.sqrt(float(each) * len(schema.rows))


def weakest_dependence(rows: int, noise: float) -> float:
    """Cramér's V of the weakest dependence that a test is likely to find, for two binary variables with even odds."""
    return math.sqrt(NONCENTRALITY * (1 + EVEN_ODDS * noise**2 / rows) / rows)


app = typer.Typer(help="Plan a privacy budget, and show the spent ε.", no_args_is_help=True, add_completion=False)

Folder = Annotated[Path, typer.Argument(help="Federated data set: a folder with one file per silo.")]


@app.command()
@options_from_model(LearnOptions, only=("delta",))
def plan(
    options: LearnOptions,
    folder: Folder,
    epsilon: Annotated[float, typer.Option(metavar="E", help="The privacy budget ε that a run may spend.")],
) -> None:
    """Predict the accuracy of a run with this privacy budget, and recommend an algorithm; this spends no ε."""
    show_plan(folder, epsilon, options.delta or 0.0)


@app.command()
@options_from_model(LearnOptions, only=("delta",))
def ledger(
    options: LearnOptions,
    folder: Annotated[Path, typer.Argument(help="A folder with one file per silo, or the file of a silo's rows.")],
) -> None:
    """Show the ε that each silo has spent in every run on these rows."""
    show_ledger(folder, options.delta or 0.0)
