"""What counts say of discrete data: the same findings as of numbers, in the words of tables (ours)."""

from math import prod

import numpy as np

from ..core.schema import FloatArray
from ..graphs.structure import Structure
from ..parameters.extension import extension
from ..statistics.one_to_one import one_to_one
from ..statistics.rows import cardinalities_of
from .findings import ROWS_PER_PARAMETER, Finding, Rule, chance_of_fit, one_to_one_pairs
from .tables import Server, tables_of


def of_fit(server: Server, structure: Structure) -> list[Finding]:
    """Return what the learned structure looks like beside the counts of its pairs."""
    names, levels = server.schema.variables, cardinalities_of(server.schema)
    d, counted = len(names), tables_of(server.counts, server.sets, levels)
    rows = int(counted[0].sum())
    pairs = zip(server.sets[d:], counted[d:], strict=True)
    same = [(names[i], names[j]) for (i, j), table in pairs if one_to_one(table.astype(np.int64))]
    found = [one_to_one_pairs(same)] if same else []
    dag = extension(structure).dag
    if dag is None:
        return found
    free = sum((int(levels[v]) - 1) * prod(int(levels[p]) for p in np.flatnonzero(dag[:, v])) for v in range(d))
    if rows < ROWS_PER_PARAMETER * free:
        said = (
            f"The structure's tables have {free:,} free parameters, learned from {rows:,} rows: many rest on few rows."
        )
        advice = "Trust edges by --bootstrap 100, and look up few single probabilities; or bring more rows."
        found.append(Finding("few rows", said, advice))
    return found


def _chance_of_shift(rows: FloatArray, d: int) -> FloatArray:
    """Return about how far the greatest of d margins is from that of the others by chance, if each has two levels."""
    return np.asarray(np.sqrt(2 * np.log(2 * d) / rows) / 4)


def _shift(who: tuple[str, ...], column: str, value: float, alone: bool, silos: int) -> Finding:
    if alone:
        said = (
            f"{who[0]} is shifted: {100 * value:.2g} % of its rows would need another level of {column} "
            "for the shares to be those of the others."
        )
        return Finding(
            "shifted silo", said, f"Ask its owner how {column} is coded there, and whom the rows are of.", who
        )
    said = (
        f"Shares of levels differ between the silos, most those of {column}, by {100 * value:.2g} % of a silo's rows."
    )
    return Finding(
        "site shares", said, "What differs by site can look like an effect: learn without some silos, too.", who
    )


def _weights(who: tuple[str, ...], column: str, value: float, alone: bool, silos: int) -> Finding:
    advice = "Learn with and without, and compare: one structure need not have one set of tables."
    if alone:
        said = f"{who[0]} depends otherwise: {column} goes with a neighbour by another rule ({value:.2g} nats a row)."
        return Finding("silo of other weights", said, advice, who)
    said = f"{len(who)} of {silos} silos have dependences of their own, most for {column} ({', '.join(who[:5])})."
    return Finding("weights differ", said, advice, who)


RULES = {"shift": Rule(0.05, _chance_of_shift, _shift), "weights": Rule(0.01, chance_of_fit, _weights)}
"""those of the figures that silos with labels send, in the order of `tables.FIGURES`"""
