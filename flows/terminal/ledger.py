"""`fedbnsl privacy ledger`: what the silos of a folder have spent."""

from collections import Counter
from pathlib import Path

from rich.table import Table

from fedbnsl.algorithms.core.promise import Charge
from fedbnsl.algorithms.privacy.ledger import spent
from fedbnsl.algorithms.privacy.shares import delta_for
from fedbnsl.data.folder.folder import read_schema, silo_files
from fedbnsl.tasks.silo.ledger import ledger_of
from fedbnsl.tracking.result import NOT_COVERED

from .listing import console


def show_ledger(folder: Path, delta: float) -> None:
    """Print the privacy budget that every silo of `folder` has spent, by run and in total."""
    schema = read_schema(folder)
    delta = delta_for(delta, schema)
    ledgers = {silo: ledger_of(path, silo).charges() for silo, path in silo_files(folder).items()}
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
