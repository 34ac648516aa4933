"""The units in which silos add up numbers behind masks: about how large each column is, by one masked sum (ours).

Masked numbers have 32 bits before and after the point. A column of nanometres next to one of euros fits them in no
common unit, and a user should not have to find one. So each silo adds log2 of the standard deviation of each of its
columns to a masked sum; the mean, rounded, is the exponent of the column's unit. All of them being powers of two,
dividing by them and multiplying again changes no digit.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ..core.one_exchange import Broadcast, once
from ..core.protocol import FederatedAlgorithm, Replies
from ..core.schema import FloatArray, Schema
from ..graphs.structure import Structure, no_edges
from .chunks import Table
from .columns import columns_of
from .symmetric import triangle

FINE = 1024


@dataclass(frozen=True)
class Units:
    """Settings of the exchange: there are none."""


@dataclass(frozen=True)
class Sizes:
    """What a silo adds: log2 of the standard deviation of each column in parts of 1/FINE, 0 for a constant, `[d]`."""

    logs: NDArray[np.int64]


@dataclass(frozen=True)
class Server:
    """What is public, and the unit of each column, `[d]`; empty before the sum."""

    schema: Schema
    units: FloatArray


def build(settings: Units) -> FederatedAlgorithm[Server, Sizes, Broadcast, Sizes]:
    """Return the one exchange."""
    return replace(
        once(open_silo, lambda schema: Server(schema.in_order(), np.empty(0)), aggregate, _structure, Server, Sizes),
        summand=lambda sent: sent.logs,
        whole_numbers=True,
        needs_secure_sum=True,
        bears_loss=True,
    )


def open_silo(table: Table, schema: Schema, silo: str, rng: np.random.Generator) -> Sizes:
    """Return the sizes of the columns of `table` `[n_rows, d]`."""
    columns = columns_of(table)
    spread = np.sqrt(columns.variances)
    varies = spread > 1e-12 * columns.greatest
    return Sizes(np.rint(FINE * np.log2(np.where(varies, spread, 1.0))).astype(np.int64))


def aggregate(server: Server, replies: Replies[Sizes]) -> Server:
    """Return the state with the units: two to the mean of the logs, rounded."""
    assert replies.total is not None
    return replace(server, units=np.exp2(np.rint(replies.total / (FINE * len(replies.silos)))))


def _structure(server: Server) -> Structure:
    return no_edges(server.schema.variables)


def of_columns(schema: Schema, lags: int = 0) -> FloatArray:
    """Return the units of the columns, `[d·(lags + 1)]`: those of each once more for every step before."""
    return np.tile(np.array(schema.units, np.float64), lags + 1)


def of_moments(units: FloatArray) -> FloatArray:
    """Return the units of `moments.pooled_moments` of columns in `units` `[d]`: rows, sums, sums of products."""
    return np.concatenate([np.ones(1), units, of_products(units)])


def of_products(units: FloatArray) -> FloatArray:
    """Return the units of the upper triangle of second moments of columns in `units` `[d]`: `[d(d + 1)/2]`."""
    return triangle(np.outer(units, units))
