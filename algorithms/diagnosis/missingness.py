"""Whether values are missing completely at random: how other columns differ where one is empty (ours; Little 1988).

Each silo adds, for each column with empty cells and every other (coded) column, how far the mean of the other one, in
the rows in which the first is empty, is from its mean in all rows, times their number, and what variance that would
have by chance. Where the sum over the silos is many standard errors from zero, the gaps of one column depend on the
other: complete rows are then a biased sample, and results are valid only if values are missing at random.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ..core.protocol import FederatedAlgorithm, OnceBroadcast, Replies, only_field, single_reply
from ..core.schema import FloatArray, Schema
from ..graphs.structure import no_edges
from ..statistics.coding import coded_names, coding_of
from ..statistics.moments import Table, column_summaries, sum_over_chunks
from .findings import Finding

SURE = 5.0
"""standard errors above which a difference is not chance"""
MATTERS = 0.1
"""standard deviations above which a difference of means matters"""
TOLD = 3
"""number of dependences that a finding names"""


@dataclass(frozen=True)
class Missingness:
    """Settings of the exchange."""

    masked: bool = False
    """always mask the replies, even if the run does not"""


@dataclass(frozen=True)
class Differences:
    """Sums over rows, one after another, `[3, d, D]`: differences, their variances by chance, and numbers of rows."""

    values: FloatArray


@dataclass(frozen=True)
class Server:
    """The public schema, and the sums `[3, d, D]`; empty before the exchange."""

    schema: Schema
    sums: FloatArray


def build(settings: Missingness) -> FederatedAlgorithm[Server, Differences, OnceBroadcast, Differences]:
    """The one exchange."""
    return replace(
        single_reply(
            open_silo,
            lambda schema: Server(schema.in_order(), np.empty(0)),
            aggregate,
            lambda server: no_edges(server.schema.variables),
            Server,
            Differences,
        ),
        summand=only_field,
        entry_units=lambda schema, asked: np.ones(1),
        needs_secure_sum=settings.masked,
        tolerates_dropout=True,
    )


def open_silo(table: Table, schema: Schema, silo: str, rng: np.random.Generator) -> Differences:
    """Return what the rows of `table` `[n_rows, d]` add, in standard deviations of their own columns."""
    coding = coding_of(schema)
    columns = column_summaries(coding.coded(table))
    spread = np.sqrt(columns.variances)

    def of(rows: NDArray[np.float64]) -> FloatArray:
        coded = coding.rows(rows) - columns.means
        known, empty = ~np.isnan(coded) & (spread > 0), np.isnan(rows) | ((rows < 0) & schema.discrete)
        scaled = np.divide(coded, spread, out=np.zeros_like(coded), where=known)
        return np.stack([empty.T.astype(np.float64) @ scaled, empty.T.astype(np.float64) @ known])

    differences, rows = sum_over_chunks(table, of)
    chance = rows * (1 - rows / np.maximum(columns.known, 1))
    return Differences(np.stack([differences, chance, rows]).ravel() / sum(schema.rows.values()))


def aggregate(server: Server, replies: Replies[Differences]) -> Server:
    """The state with the sums."""
    assert replies.total is not None
    schema = server.schema
    total = replies.total * sum(schema.rows.values())
    return replace(server, sums=total.reshape(3, len(schema.variables), -1))


def findings(server: Server) -> list[Finding]:
    """Which columns' gaps depend on others, the strongest of each column first."""
    schema, (differences, chance, rows) = server.schema, server.sums
    with np.errstate(divide="ignore", invalid="ignore"):
        errors = np.nan_to_num(differences / np.sqrt(np.maximum(chance, 0)), posinf=0.0, neginf=0.0)
        means = np.nan_to_num(differences / rows)
    errors = np.where(np.abs(means) > MATTERS, errors, 0.0)
    strongest = np.abs(errors).argmax(axis=1)
    told = [i for i in np.argsort(-np.abs(errors).max(axis=1)) if abs(errors[i, strongest[i]]) > SURE]
    if not told:
        return []
    names, other = schema.variables, coded_names(schema)
    some = [
        f"{names[i]} where {other[strongest[i]]} is {'high' if means[i, strongest[i]] > 0 else 'low'}"
        for i in told[:TOLD]
    ]
    said = f"Values are not missing completely at random: more often those of {'; '.join(some)}"
    more = f", and {len(told) - TOLD} more columns" if len(told) > TOLD else ""
    advice = (
        "Estimates are valid if values are missing at random, given the known cells. If that depends on the missing "
        "value itself, nothing in the data shows it, and edges of such columns may be wrong: ask why cells are empty."
    )
    return [Finding("gaps depend", f"{said}{more}.", advice)]
