"""Tables about privacy for the terminal: the plan for a budget, the ledgers of a folder, the attack."""

import math
from collections import Counter
from pathlib import Path
from statistics import median

from rich.table import Table

from fedbnsl.algorithms import registry
from fedbnsl.algorithms.moments import dp_covariance, secure_sum
from fedbnsl.algorithms.moments.summed import noise_level
from fedbnsl.algorithms.privacy.forecast import Forecast, forecast
from fedbnsl.algorithms.privacy.ledger import Charge, spent
from fedbnsl.algorithms.privacy.shares import delta_for
from fedbnsl.algorithms.privacy.zcdp import ReplaceOne, budget, gaussian_sigma
from fedbnsl.algorithms.protocol import Schema
from fedbnsl.data.folder import read_folder, read_schema, silo_files
from fedbnsl.tasks.ledger import FileLedger, ledger_path
from fedbnsl.tracking.result import NOT_COVERED

from .attack import attack
from .listing import console


def show_plan(folder: Path, epsilon: float, delta: float) -> None:
    """Print noise, expected error and smallest weight for each private algorithm, and which one to take."""
    schema = read_schema(folder)
    delta = delta_for(delta, schema)
    cost = budget(epsilon, delta, ReplaceOne)
    d, rows, silos = len(schema.variables), sum(schema.rows.values()), len(schema.rows)
    out = console()
    out.print(
        f"{d} variables, {silos} silos, {rows} rows; ε = {epsilon:g}, δ = {delta:.3g}, ρ = {cost.rho:.5g} (zCDP, "
        f"{ReplaceOne.label}, per record). Nothing is spent by this plan."
    )
    out.print(
        f"As one Gaussian release, all of it would be noise of {1 / math.sqrt(2 * cost.rho):.4g} sensitivities; no "
        f"accounting could do with less than {gaussian_sigma(1.0, epsilon, delta):.4g} (analytic Gaussian)."
    )
    table = Table("algorithm", "who must be trusted", "noise", "error of a weight", "smallest weight likely found")
    forecasts = forecasts_for(schema, epsilon, delta)
    for one, trusted in forecasts:
        table.add_row(one.algorithm, trusted, f"{one.noise:.3g}", f"{one.weight_error:.3g}", f"{one.smallest:.3g}")
    out.print(table)
    out.print("Noise: in a second moment; for dp-fed-sparse, in a step of all silos on a weight.")
    out.print("Units: every variable has the mean square 1. Edges below the threshold τ are cut off besides.")
    best = forecasts[0][0] if silos > 1 else min((one for one, _ in forecasts), key=lambda one: one.weight_error)
    out.print(f"take {best.algorithm}: fedbnsl learn {folder} --algorithm {best.algorithm} --epsilon {epsilon:g}")
    out.print("Not covered by ε: " + "; ".join(NOT_COVERED) + ".", soft_wrap=True)


def forecasts_for(schema: Schema, epsilon: float, delta: float) -> list[tuple[Forecast, str]]:
    """Return what to expect of each private algorithm with its default settings, and whom it trusts."""
    d, rows, silos = len(schema.variables), sum(schema.rows.values()), len(schema.rows)
    found = []
    for name, plan, trusted in (
        ("secure-sum", secure_sum.plan, "two thirds of the silos, not the coordinator"),
        ("dp-covariance", dp_covariance.plan, "nobody"),
    ):
        settings = registry.configure(name, {"epsilon": epsilon, "delta": delta})
        noise = noise_level(plan(settings, schema), d, silos, rows, settings.clip)
        found.append((forecast(name, d, rows, noise), trusted))
    steps = registry.build("dp-fed-sparse", registry.configure("dp-fed-sparse", {"epsilon": epsilon, "delta": delta}))
    return [*found, (forecast("dp-fed-sparse", d, rows, steps.open_server(schema).noise), "nobody")]


def show_ledger(folder: Path, delta: float) -> None:
    """Print what every silo of `folder` has charged: by run, and all together."""
    schema = read_schema(folder)
    delta = delta_for(delta, schema)
    ledgers = {silo: FileLedger(ledger_path(path, silo)).charges() for silo, path in silo_files(folder).items()}
    out = console()
    if not any(ledgers.values()):
        out.print(f"{folder}: nothing has been spent on these rows")
        return
    table = Table("silo", "run", "releases", "ρ", f"ε at δ = {delta:.3g}", "what")
    for silo, charges in ledgers.items():
        for run in dict.fromkeys(charge.run for charge in charges):
            _add(table, silo, run, tuple(charge for charge in charges if charge.run == run), delta)
        _add(table, silo, "all runs", charges, delta, last=True)
    out.print(table)
    out.print("Not covered by ε: " + "; ".join(NOT_COVERED) + ".", soft_wrap=True)


def _add(table: Table, silo: str, run: str, charges: tuple[Charge, ...], delta: float, *, last: bool = False) -> None:
    kinds = Counter(charge.what for charge in charges)
    what = ", ".join(f"{times} × {kind}" if times > 1 else kind for kind, times in kinds.items())
    broken = {charge.broken for charge in charges} - {""}
    epsilon = f"∞, NOT PRIVATE: {', '.join(sorted(broken))}" if broken else f"{spent(charges, delta):.4g}"
    rho = sum(charge.rho for charge in charges)
    table.add_row(silo, run, str(len(charges)), f"{rho:.5g}", epsilon, "" if last else what, end_section=last)


def show_attack(folder: Path, epsilon: float) -> None:
    """Print how close the attacker comes to each silo's second moments, under each protection."""
    found = attack(read_folder(folder), epsilon)
    out = console()
    out.print(
        "Relative error of the second moments that a curious coordinator works out for a silo, median over the silos; "
        "beside it, that of taking the silo for the mean of all, which any result gives away."
    )
    table = Table("what the coordinator sees", "attacker's guess", "public guess", "the attack")
    for one in found:
        error, public = median(one.error.values()), median(one.public.values())
        succeeds = error < public / 2
        table.add_row(
            one.protection, f"{error:.3g}", f"{public:.3g}", "lays the silo bare" if succeeds else "gains nothing"
        )
    out.print(table)
