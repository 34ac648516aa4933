"""The exchange before a run with `lags=auto`: one sum, from which BIC chooses the lag order (our own method).

Columns of labels are replaced by indicators of their levels (`statistics/coding.py`).
"""

from dataclasses import dataclass, replace

import numpy as np

from ..core.protocol import FederatedAlgorithm, OnceBroadcast, Summand, without_edges
from ..core.schema import FloatArray, Schema, max_common_lags
from ..core.settings import Count, Settings
from ..moments.pooled import information_criteria, least_bic
from ..statistics.coding import coded_names, coded_units, coding_of
from .var import Server, summed_windows, window_units

FLOOR = 1e-9
"""share of the diagonal that is added to it, because moments are singular if a level does not occur, or if other
columns determine it"""


@dataclass(frozen=True)
class LagOrder(Settings):
    """Settings of the choice of the lag order."""

    max_lags: Count = 5
    """maximum number of lags, if the series are long enough"""


def build(settings: LagOrder) -> FederatedAlgorithm[Server, FloatArray, OnceBroadcast, Summand]:
    """The algorithm of one sum; `choose_lag_order` reads its server state."""
    summed = summed_windows(lambda schema: max_common_lags(schema, settings.max_lags), without_edges, center=True)
    return replace(
        summed,
        open_silo=lambda table, schema, silo, rng: summed.open_silo(
            coding_of(schema).encode(table), _coded(schema), silo, rng
        ),
        open_server=lambda schema: summed.open_server(_coded(schema)),
        entry_units=lambda schema, request: window_units(_coded(schema), max_common_lags(schema, settings.max_lags)),
    )


def _coded(schema: Schema) -> Schema:
    """The schema of series in which labels are indicators, as numbers."""
    if not schema.levels:
        return schema
    return replace(schema, variables=coded_names(schema), levels={}, units=tuple(map(float, coded_units(schema))))


def choose_lag_order(server: Server) -> tuple[int, tuple[float, ...]]:
    """The lag order of minimum BIC, and the BIC of 1, 2, ... lags (`moments/pooled.py`)."""
    S = server.covariance
    floor = np.where(np.diag(S) > 0, FLOOR * np.diag(S), FLOOR)
    criteria = information_criteria(S + np.diag(floor), server.rows, len(server.schema.variables))
    return least_bic(criteria), tuple(map(float, criteria))
