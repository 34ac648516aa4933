"""Probability tables from summed counts: one exchange after a run on discrete data.

The broadcast has each variable with its parents in the learned DAG (a family). The reply has the count tables of these
families, of which the server needs only the sum. So the tables equal the tables of the pooled rows. With experiments, a
variable is counted only in the rows in which it was not set.

P(x_v = k | parents' state j) = (N_jk + α) / (N_j + r α) for r levels of v. The Dirichlet prior is α = ess/(q r) for q
states of the parents, which is equivalent to `ess` additional rows that are spread evenly over the cells (the prior of
BDeu; Heckerman, Geiger, Chickering 1995, §7). A state of the parents that never occurs has a uniform distribution.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core.protocol import FederatedAlgorithm, Summand, sum_each_round
from ..core.schema import FloatArray, Schema
from ..core.settings import Positive, Settings
from ..graphs.structure import Structure
from ..privacy.disclosure_control import CountTable, publishable_tables
from ..statistics.count_tables import PAD, count, offsets
from ..statistics.rows import ConditionRows, Rows, open_conditions, open_rows
from .networks import Network


@dataclass(frozen=True)
class FamilyTables(Settings):
    """Settings of the exchange."""

    ess: Positive = 1.0
    """equivalent sample size of the prior of each table, in rows"""
    masked: bool = False
    """always mask the replies, even if the run does not"""


MAX_CELLS = 2_000_000
"""maximum total number of cells of the tables of one network, which determines the size of messages and files"""


@dataclass(frozen=True)
class Broadcast:
    """The families to count: row v has v and its parents, ascending, padded with -1, `[d, 1 + most parents]`."""

    sets: NDArray[np.int16]


@dataclass(frozen=True)
class Server:
    """The families and, after the exchange, their summed counts."""

    variables: tuple[str, ...]
    levels: dict[str, tuple[str, ...]]
    parents: NDArray[np.bool_]
    counts: NDArray[np.int64]


def start(schema: Schema, dag: NDArray[np.bool_]) -> Server:
    """The server's state before the exchange, for the learned `dag` `[d, d]`."""
    return Server(schema.variables, schema.levels, dag, np.empty(0, np.int64))


def size_error(schema: Schema, dag: NDArray[np.bool_]) -> str | None:
    """The message that the tables of `dag` would be too large; None if they are not too large."""
    levels = [len(schema.levels[name]) for name in schema.variables]
    cells = [prod(levels[v] for v in (child, *np.flatnonzero(dag[:, child]))) for child in range(len(levels))]
    if sum(cells) <= MAX_CELLS:
        return None
    worst = max(range(len(cells)), key=cells.__getitem__)
    return (
        f"the probability tables would have {sum(cells):,} cells, more than {MAX_CELLS:,}: "
        f"{cells[worst]:,} alone for {schema.variables[worst]} with its {int(dag[:, worst].sum())} parents"
    )


def build(settings: FamilyTables) -> FederatedAlgorithm[Server, Rows, Broadcast, Summand]:
    """The one exchange, which begins in the state `start(...)`."""

    def open_server(schema: Schema) -> Server:
        return start(schema, np.zeros((len(schema.variables),) * 2, np.bool_))

    return sum_each_round(
        open_silo=open_silo,
        open_server=open_server,
        broadcast=lambda server: Broadcast(families(server.parents)),
        part=lambda silo, request: family_counts(silo, request.sets),
        aggregate=lambda server, replies: replace(server, counts=replies.total),
        structure=lambda server: Structure(server.variables, server.parents.astype(np.float64)),
        server_type=Server,
        broadcast_type=Broadcast,
        whole_numbers=True,
        greatest_total=lambda schema, request: sum(schema.rows.values()),
        needs_secure_sum=settings.masked,
    )


def open_silo(table: Any, schema: Schema, silo: str, rng: np.random.Generator) -> Rows:
    """The rows of `table` `[n_rows, d]`; with experiments, by condition, and the conditions that count by variable."""
    if not schema.has_targets:
        return open_rows(table, schema, silo, rng)
    found = open_conditions(table, schema, silo, lambda part, public: open_rows(part, public, silo, rng))
    return replace(found, used=found.used[schema.experiments.group])


def family_counts(rows: Rows, sets: NDArray[np.int16]) -> NDArray[np.int64]:
    """The counts over the families `sets` `[d, size]`, one for each variable.

    With experiments, a family is counted in the conditions that do not target its variable.
    """
    if not isinstance(rows, ConditionRows):
        return np.asarray(count(rows.columns, rows.cardinalities, sets), np.int64)
    tables = []
    for family, used in zip(sets[:, None], rows.used, strict=True):
        total = np.zeros(int(offsets(family, rows.cardinalities)[-1]), np.int64)
        for part, is_used in zip(rows.parts, used, strict=True):
            if is_used:
                total += count(part.columns, part.cardinalities, family)
        tables.append(total)
    return np.concatenate(tables)


def families(dag: NDArray[np.bool_]) -> NDArray[np.int16]:
    """Each variable with its parents, ascending, padded with -1, `[d, 1 + most parents]`."""
    members = dag | np.eye(len(dag), dtype=np.bool_)
    sets = np.full((len(dag), int(members.sum(axis=0).max(initial=1))), PAD, np.int16)
    for v in range(len(dag)):
        family = np.flatnonzero(members[:, v])
        sets[v, : len(family)] = family
    return sets


def network(server: Server, ess: float, *, blank: bool = False) -> Network:
    """The network of the server's final state; parents are in the order of the variables.

    With `blank`, tables are computed from publishable counts (`privacy/disclosure_control.py`), not from exact counts.
    """
    names = server.variables
    exact = count_tables(server)
    counts = counts_for_model(exact, blank=blank)
    parents, tables = {}, {}
    for v, (table, cells) in enumerate(zip(exact, counts, strict=True)):
        parents[names[v]] = tuple(names[u] for u in table.variables if u != v)
        tables[names[v]] = smooth_counts(np.moveaxis(cells, table.variables.index(v), -1), ess)
    return Network(names, server.levels, parents, tables)


def count_tables(server: Server) -> list[CountTable]:
    """The summed counts of each variable with its parents."""
    levels = [len(server.levels[name]) for name in server.variables]
    tables, begin = [], 0
    for v, row in enumerate(families(server.parents)):
        family = tuple(int(u) for u in row if u != PAD)
        shape = [levels[u] for u in family]
        tables.append(CountTable(family, server.counts[begin : begin + prod(shape)].reshape(shape), v))
        begin += prod(shape)
    return tables


def counts_for_model(tables: Sequence[CountTable], *, blank: bool) -> list[FloatArray]:
    """The counts from which the tables of a model are computed: publishable counts (`blank`), or exact counts.

    If all tables count the same number of rows, the rounding also hides what their shared margins could reveal.
    """
    if not blank:
        return [table.counts.astype(np.float64) for table in tables]
    totals = {int(table.counts.sum()) for table in tables}
    return [table.counts for table in publishable_tables(tables, totals.pop() if len(totals) == 1 else None)]


def smooth_counts(counts: FloatArray, ess: float) -> FloatArray:
    """P(last axis | other axes) from `counts` under the prior of `ess` rows that are spread evenly over the cells."""
    alpha = ess / counts.size
    return np.asarray((counts + alpha) / (counts.sum(axis=-1, keepdims=True) + alpha * counts.shape[-1]))


def contributing_rows(server: Server) -> int:
    """The number of rows that the silos counted for the first variable."""
    first = families(server.parents)[0]
    size = prod(len(server.levels[server.variables[u]]) for u in first if u != PAD)
    return int(server.counts[:size].sum())
