"""A ridge vector autoregression, a usual baseline: lagged edges only, without contemporaneous edges.

In units of standard deviations, A = (1 + r)(C + rI)⁻¹c, where C has the correlations of the lagged columns, and c the
correlations of lagged with present columns. r = 0 is least squares. With a large r, A is close to the correlations c.
Values in between reduce indirect effects through correlated variables. The factor 1 + r removes the shrinkage.

This baseline finds directions well on few, short series, such as series of gene expression. For such series, it is best
to subtract a common mean, because a separate mean for each series would remove the series' level. Units of standard
deviations and a large r are also best.

A window is a row with its lagged rows. `summed_windows` adds up the moments of the windows of all silos in one
exchange. A structure or a lag order is computed from the sum. What leaves a silo: the number of its windows, and their
sums and sums of products, divided by the number of all windows.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from ..core.protocol import (
    FederatedAlgorithm,
    OnceBroadcast,
    Replies,
    Summand,
    sum_each_round,
)
from ..core.schema import AUTO, FloatArray, Lags, Schema, lags_to_sum
from ..core.settings import Count, NonNegative, Settings
from ..graphs.structure import Structure
from ..moments.pooled import moments_of_least_bic
from ..moments.tiers import ridge_effects
from ..statistics.lagged import silo_windows, window_schema
from ..statistics.moments import (
    Table,
    column_units,
    covariance,
    moment_units,
    per_row,
    pooled_moments,
    undo_per_row,
    unit_diagonal,
)


@dataclass(frozen=True)
class Server:
    """The public schema, and the covariance of all windows `[m, m]`, which is empty before the exchange."""

    schema: Schema
    reach: int
    """number of lags of the windows"""
    rows: int
    covariance: FloatArray


def summed_windows(
    reach_of: Callable[[Schema], int], structure: Callable[[Server], Structure], *, center: bool
) -> FederatedAlgorithm[Server, FloatArray, OnceBroadcast, Summand]:
    """The algorithm of one sum over windows; `reach_of` computes the number of lags from the public schema.

    With `center`, each silo first subtracts its own levels, which are means that differ significantly from zero. The
    covariance is about the mean of all windows.
    """

    def open_silo(table: Table, schema: Schema, silo: str, rng: np.random.Generator) -> FloatArray:
        reach = reach_of(schema)
        all_rows = sum(schema.windows(reach).values())
        rows = silo_windows(table, schema, silo, reach, center=center)
        return per_row(pooled_moments(rows), all_rows)

    def open_server(schema: Schema) -> Server:
        return Server(schema.in_order(), reach_of(schema), 0, np.empty((0, 0)))

    def aggregate(server: Server, replies: Replies[Summand]) -> Server:
        columns = window_schema(server.schema, server.reach)
        moments = undo_per_row(replies.total, sum(columns.rows.values()))
        rows, S = covariance(moments, len(columns.variables))
        return replace(server, rows=rows, covariance=S)

    return sum_each_round(
        open_silo=open_silo,
        open_server=open_server,
        broadcast=lambda server: OnceBroadcast(),
        part=lambda own, request: own,
        aggregate=aggregate,
        structure=structure,
        server_type=Server,
        broadcast_type=OnceBroadcast,
        entry_units=lambda schema, request: window_units(schema, reach_of(schema)),
    )


def window_units(schema: Schema, lags: int) -> FloatArray:
    """The units of the moments of windows of `lags` lags."""
    return moment_units(column_units(schema, lags))


@dataclass(frozen=True)
class Var(Settings):
    """Settings of `var`."""

    lags: Lags = 1
    """p, how many steps back an edge may reach; auto: by BIC"""
    max_lags: Count = 5
    """maximum number of lags for `auto`, if the series are long enough"""
    ridge: NonNegative = 10.0
    """r, in units of the variables' variances; 0: least squares"""
    threshold: NonNegative = 0.2
    """τ: effects of at most this size, in standard deviations, are dropped"""
    center: bool = False
    """subtract each silo's own levels, not only the common means: for sites with different offsets"""
    hubs: bool = False
    """weight the strengths of a variable's effects by their root mean square: for networks with hubs"""


def build(settings: Var) -> FederatedAlgorithm[Server, FloatArray, OnceBroadcast, Summand]:
    """The algorithm of one sum."""
    return summed_windows(
        lambda schema: lags_to_sum(schema, settings.lags, settings.max_lags),
        partial(structure, settings),
        center=settings.center,
    )


def structure(settings: Var, server: Server) -> Structure:
    """The structure of the lagged effects whose absolute value, in standard deviations, exceeds τ.

    It has no contemporaneous edges.
    """
    names = server.schema.variables
    d = len(names)
    if not server.rows:
        return Structure(names, np.zeros((d, d)), lagged=np.zeros((server.reach, d, d)))
    S = server.covariance
    if settings.lags == AUTO:
        S = moments_of_least_bic(S, server.rows, d)
    effects = ridge_effects(unit_diagonal(S), d, settings.ridge)
    strengths = np.abs(effects)
    if settings.hubs:
        others = np.where(np.eye(d, dtype=bool), 0.0, strengths)
        strengths = strengths * np.sqrt((others**2).mean(axis=2, keepdims=True))
    edges = np.where(np.abs(effects) > settings.threshold, effects, 0.0)
    nothing = np.zeros((d, d))
    return Structure(names, nothing, scores=nothing, lagged=edges, lagged_scores=strengths)
