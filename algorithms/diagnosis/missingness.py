"""A test of missing completely at random: differences of other columns' means where a column is empty (Little 1988).

The test concerns each column A with empty cells and every other (coded) column B. Each silo computes the mean of B over
the rows in which A is empty, minus the mean of B over all rows. The silo sends this difference times the number of
these rows, and the variance that this product has if cells are empty at random. If the sum over the silos is many
standard errors from zero, missingness in A depends on B. Then complete rows are a biased sample, and results are valid
only if values are missing at random. The sum over silos is our own extension.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ..core.protocol import FederatedAlgorithm, OnceBroadcast, Replies, Summand, sum_each_round
from ..core.schema import FloatArray, Schema
from ..core.settings import Settings
from ..statistics.coding import coded_names, coding_of
from ..statistics.moments import Table, column_summaries, sum_over_chunks
from .findings import Finding

MIN_STANDARD_ERRORS = 5.0
"""number of standard errors above which a difference is significant"""
MIN_MEAN_DIFFERENCE = 0.1
"""minimum difference of means that is relevant, in standard deviations"""
MAX_NAMED = 3
"""maximum number of dependences that a finding names"""


@dataclass(frozen=True)
class Missingness(Settings):
    """Settings of the exchange."""

    masked: bool = False
    """always mask the replies, even if the run does not"""


@dataclass(frozen=True)
class Server:
    """The public schema, and the sums `[3, d, D]` for d variables and D coded columns; empty before the exchange."""

    schema: Schema
    sums: FloatArray


def build(settings: Missingness) -> FederatedAlgorithm[Server, FloatArray, OnceBroadcast, Summand]:
    """The one exchange."""
    return sum_each_round(
        open_silo=lambda table, schema, silo, rng: differences_of_means(table, schema),
        open_server=lambda schema: Server(schema.in_order(), np.empty(0)),
        broadcast=lambda server: OnceBroadcast(),
        part=lambda own, request: own,
        aggregate=aggregate,
        server_type=Server,
        broadcast_type=OnceBroadcast,
        entry_units=lambda schema, request: np.ones(1),
        needs_secure_sum=settings.masked,
    )


def differences_of_means(table: Table, schema: Schema) -> FloatArray:
    """The silo's sums over the rows of `table` `[n_rows, d]`, flattened `[3, d, D]`, divided by the rows of all silos.

    They are differences in standard deviations of each column, their variances by chance, and numbers of rows.
    """
    coding = coding_of(schema)
    columns = column_summaries(coding.encode(table))
    spread = np.sqrt(columns.variances)

    def sums_of(rows: NDArray[np.float64]) -> FloatArray:
        coded = coding.rows(rows) - columns.means
        known, empty = ~np.isnan(coded) & (spread > 0), np.isnan(rows) | ((rows < 0) & schema.discrete)
        scaled = np.divide(coded, spread, out=np.zeros_like(coded), where=known)
        return np.stack([empty.T.astype(np.float64) @ scaled, empty.T.astype(np.float64) @ known])

    differences, rows = sum_over_chunks(table, sums_of)
    chance = rows * (1 - rows / np.maximum(columns.cells, 1))
    return np.asarray(np.stack([differences, chance, rows]).ravel() / sum(schema.rows.values()))


def aggregate(server: Server, replies: Replies[Summand]) -> Server:
    """The state with the sums."""
    schema = server.schema
    total = replies.total * sum(schema.rows.values())
    return replace(server, sums=total.reshape(3, len(schema.variables), -1))


def findings(server: Server) -> list[Finding]:
    """The finding on columns whose missingness depends on other columns, if there are any, the strongest first."""
    schema, (differences, chance, rows) = server.schema, server.sums
    with np.errstate(divide="ignore", invalid="ignore"):
        errors = np.nan_to_num(differences / np.sqrt(np.maximum(chance, 0)), posinf=0.0, neginf=0.0)
        means = np.nan_to_num(differences / rows)
    errors = np.where(np.abs(means) > MIN_MEAN_DIFFERENCE, errors, 0.0)
    strongest = np.abs(errors).argmax(axis=1)
    largest = np.abs(errors).max(axis=1)
    significant = [i for i in np.argsort(-largest) if abs(errors[i, strongest[i]]) > MIN_STANDARD_ERRORS]
    if not significant:
        return []
    names, other = schema.variables, coded_names(schema)
    some = [
        f"{names[i]} where {other[strongest[i]]} is {'high' if means[i, strongest[i]] > 0 else 'low'}"
        for i in significant[:MAX_NAMED]
    ]
    sentence = f"Values are not missing completely at random: cells are more often empty in {'; '.join(some)}"
    more = f", and {len(significant) - MAX_NAMED} more columns" if len(significant) > MAX_NAMED else ""
    advice = (
        "Estimates are valid if values are missing at random, given the observed cells. If missingness depends on the "
        "missing value itself, the data cannot show it, and edges of such columns may be wrong: ask why cells are "
        "empty."
    )
    return [Finding("empty cells depend on other columns", f"{sentence}{more}.", advice)]
