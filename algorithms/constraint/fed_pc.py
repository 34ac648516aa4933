"""FedPC and FedFCI: PC and FCI whose independence tests are federated (Wang, Ma & Wang 2023).

What leaves a silo: for discrete data, count tables over the sets of variables that the search requests, in one or more
exchanges for each size of conditioning set; for other data, second moments, once. The server needs only the sum of the
silos' replies. With an ε, count tables are noisy, and the coordinator receives only their masked sum.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal

import numpy as np
from annotated_types import Ge
from numpy.typing import NDArray

from ..core.promise import Private, Release
from ..core.protocol import FederatedAlgorithm, Summand
from ..core.schema import Schema
from ..core.settings import CountOrNone, Seed
from ..errors import BadInput
from ..privacy.ledger import PrivateSettings
from ..privacy.zcdp import guaranteed_shares
from ..published import presets_of
from ..statistics.count_tables import offsets
from ..statistics.rows import Query, open_rows
from .evidence import exact_evidence, private_count_evidence
from .federated import Evidence, Server, federated_search
from .orientation import FCI, PC, ConstraintMethod
from .private_counts import PrivateRows, TablePlan, table_plan
from .projection import projection_evidence
from .settings import ConstraintSettings
from .time_series import LaggedTestSettings, with_series

PRIVATE_DEPTH = 2
"""the largest conditioning set of a private run, unless the depth is set"""
ALL_CELLS = 2**62
"""a number of table cells that no level exceeds"""


@dataclass(frozen=True)
class FederatedSettings(PrivateSettings, ConstraintSettings):
    """Settings of `fed-pc` and `fed-fci`."""

    mode: Literal["exact", "projection"] = "exact"
    """exact: the tables are summed; projection: their margins and random projections of the tables are summed (Wang, Ma
    & Wang 2023, Algorithm 1); tables with (|X| - 1)(|Y| - 1) ≤ l can be recovered from these"""
    projections: Annotated[int, Ge(2)] = 50
    """l, the number of random projections of a stratum"""
    projection_seed: Seed = 0
    """seed of the projections; it is public"""
    colluders: CountOrNone = 1
    """number of silos that may collude and subtract their own noise from the sum; the noise of the remaining silos
    suffices for ε; 0: no protection against silos, with slightly less noise"""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.epsilon and self.mode != "exact":
            raise BadInput(f"parameter mode is {self.mode}: with an epsilon it must be exact")
        if self.epsilon and self.statistic != "chi2":
            raise BadInput(f"parameter statistic is {self.statistic}: with an epsilon it must be chi2")


@dataclass(frozen=True)
class FedPc(FederatedSettings, LaggedTestSettings):
    """Settings of `fed-pc`."""


PRESETS = presets_of("fed-pc", FedPc)


def fed_pc(settings: FederatedSettings) -> FederatedAlgorithm[Server, Any, Query, Summand]:
    """FedPC, for variables without latent common causes; from time series it learns with PCMCI+ (`time_series.py`)."""
    search = _federated(settings, PC)
    if not isinstance(settings, FedPc) or settings.epsilon or settings.mode != "exact":
        return search
    return with_series(search, settings)


def fed_fci(settings: FederatedSettings) -> FederatedAlgorithm[Server, Any, Query, Summand]:
    """FedFCI, which allows for latent variables."""
    return _federated(settings, FCI)


def max_exchanges(settings: ConstraintSettings, method: ConstraintMethod) -> int:
    """The largest number of exchanges of a search to `settings.depth` if no level is split into parts."""
    levels = settings.depth + 1
    possible_d_sep = settings.depth if method.pools is not None else 0
    return levels + possible_d_sep + (settings.orientation != "sepset")


def releases(rows: PrivateRows, query: Query) -> tuple[Release, ...]:
    """The next release of a private silo, and its cost; nothing if no table is requested."""
    tables, cells = len(query.sets), int(offsets(query.sets, rows.cardinalities)[-1])
    if not cells:
        return ()
    cost = rows.plan.cost(tables, cells, rows.plan.variance(tables, cells))
    return (Release(f"{tables} count tables", cost),)


def _federated(
    settings: FederatedSettings, method: ConstraintMethod
) -> FederatedAlgorithm[Server, Any, Query, Summand]:
    if settings.epsilon:
        return _private(settings, method)

    def choose(kind: str) -> Evidence:
        if settings.mode == "exact":
            return exact_evidence(settings, kind)
        if kind != "discrete":
            raise BadInput(f"parameter mode is projection, which needs discrete data: the data are {kind}")
        return projection_evidence(settings.projections, settings.projection_seed)

    search: FederatedAlgorithm[Server, Any, Query, Summand] = federated_search(settings, method, choose)

    def open_server(schema: Schema) -> Server:
        if schema.independent_share < 1 and settings.mode == "projection":
            raise BadInput("parameter mode is projection, whose tests count all rows: with --cluster it must be exact")
        return search.open_server(schema)

    return replace(search, open_server=open_server)


def bounded_settings(settings: FederatedSettings) -> FederatedSettings:
    """`settings` for a private run: no level is split into parts, so the number of exchanges is bounded."""
    return replace(settings, depth=PRIVATE_DEPTH if settings.depth < 0 else settings.depth, cells=ALL_CELLS)


def privacy_plan(settings: FederatedSettings, method: ConstraintMethod, rows: Mapping[str, int]) -> TablePlan:
    """The plan of the privacy budget for silos with these numbers of `rows`."""
    certain_shares, protects = guaranteed_shares(len(rows), settings.colluders)
    promise = settings.promise(Schema((), dict(rows)), protects)
    return table_plan(promise, certain_shares, max_exchanges(bounded_settings(settings), method))


def _private(settings: FederatedSettings, method: ConstraintMethod) -> FederatedAlgorithm[Server, Any, Query, Summand]:
    """The search on noisy tables."""
    settings = bounded_settings(settings)

    def plan(rows: Mapping[str, int]) -> TablePlan:
        return privacy_plan(settings, method, rows)

    def choose(kind: str) -> Evidence:
        if kind != "discrete":
            raise BadInput(f"parameter epsilon needs discrete data, the data are {kind}: use secure-sum")
        return private_count_evidence(settings, plan)

    def open_private(table: NDArray[Any], schema: Schema, silo: str, rng: np.random.Generator) -> PrivateRows:
        return PrivateRows(**vars(open_rows(table, schema, silo, rng)), plan=plan(schema.rows))

    search: FederatedAlgorithm[Server, Any, Query, Summand] = federated_search(settings, method, choose)

    def open_server(schema: Schema) -> Server:
        plan(schema.rows)  # for its errors: they are raised before any silo is asked
        return search.open_server(schema)

    return replace(
        search,
        open_silo=open_private,
        open_server=open_server,
        max_rounds=min(settings.rounds, max_exchanges(settings, method)),
        needs_secure_sum=True,
        private=Private(
            promise=lambda schema: plan(schema.rows).promise,
            releases=releases,
            with_key=lambda rows, key: replace(rows, key=key),
            insecure_seed=settings.insecure_seed,
        ),
    )
