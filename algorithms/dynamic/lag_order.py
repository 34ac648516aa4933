"""The exchange before a run with `lags=auto`: one sum, from which BIC chooses the lag order (ours)."""

from dataclasses import dataclass

from ..core.protocol import FederatedAlgorithm, OnceBroadcast
from ..core.schema import max_common_lags
from ..errors import require
from ..graphs.structure import Structure, empty_structure
from ..moments.pooled import information_criteria, least_bic
from .var import Moments, Server, summed_windows


@dataclass(frozen=True)
class LagOrder:
    """Settings of the choice of the lag order."""

    most_lags: int = 5
    """maximum number of lags, if the series are long enough"""

    def __post_init__(self) -> None:
        """Raise `BadInput` for a value outside its range."""
        require(self.most_lags >= 1, "most_lags", self.most_lags, "1 or more")


def build(settings: LagOrder) -> FederatedAlgorithm[Server, Moments, OnceBroadcast, Moments]:
    """The algorithm of one sum; `choose_lag_order` reads its server state."""

    def structure(server: Server) -> Structure:
        """No edges: only the lag order is needed."""
        return empty_structure(server.schema.variables)

    return summed_windows(lambda schema: max_common_lags(schema, settings.most_lags), structure, center=True)


def choose_lag_order(server: Server) -> tuple[int, tuple[float, ...]]:
    """The lag order of minimum BIC, and the BIC of 1, 2, ... lags (`moments/pooled.py`)."""
    criteria = information_criteria(server.covariance, server.rows, len(server.schema.variables))
    return least_bic(criteria), tuple(map(float, criteria))
