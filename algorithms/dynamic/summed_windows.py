"""One sum of the moments of all silos' windows, and something that is read off it: a structure, or a lag order.

What leaves a silo: its number of windows, their sums and sums of products, as parts of the means over all windows.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from ..core.one_exchange import Broadcast, once
from ..core.protocol import FederatedAlgorithm, Replies
from ..core.schema import FloatArray, Schema
from ..graphs.structure import Structure
from ..statistics.lagged import silo_windows, windowed
from ..statistics.moments import covariance, of_all_rows, per_row, pooled_moments
from ..statistics.units import of_columns, of_moments


@dataclass(frozen=True)
class Moments:
    """A silo's moments, all it keeps and all it sends: rows, sums and sums of products of its windows."""

    moments: FloatArray


@dataclass(frozen=True)
class Server:
    """What is public, and the covariance of all windows `[m, m]`; empty before the sum."""

    schema: Schema
    reach: int
    """how many lags the windows have"""
    rows: int
    covariance: FloatArray


def summed_windows(
    reach_of: Callable[[Schema], int], structure: Callable[[Server], Structure], *, center: bool
) -> FederatedAlgorithm[Server, Moments, Broadcast, Moments]:
    """Return the algorithm of one sum, of windows with as many lags as `reach_of` says of the public schema.

    With `center` each silo subtracts its own levels first; what is left of means is subtracted from the sum.
    """

    def open_silo(table: FloatArray, schema: Schema, silo: str, rng: np.random.Generator) -> Moments:
        reach = reach_of(schema)
        all_rows = sum(schema.windows(reach).values())
        rows = silo_windows(table, schema, silo, reach, center=center)
        return Moments(per_row(pooled_moments(rows), all_rows))

    def open_server(schema: Schema) -> Server:
        return Server(schema.in_order(), reach_of(schema), 0, np.empty((0, 0)))

    def aggregate(server: Server, replies: Replies[Moments]) -> Server:
        assert replies.total is not None
        columns = windowed(server.schema, server.reach)
        moments = of_all_rows(replies.total, sum(columns.rows.values()))
        rows, found = covariance(moments, len(columns.variables))
        return replace(server, rows=rows, covariance=found)

    return replace(
        once(open_silo, open_server, aggregate, structure, Server, Moments),
        summand=lambda sent: sent.moments,
        entry_units=lambda schema, asked: of_moments(of_columns(schema, reach_of(schema))),
        bears_loss=True,
    )
