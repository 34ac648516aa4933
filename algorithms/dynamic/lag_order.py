"""The exchange before a run that was asked for `lags=auto`: one sum, of which BIC chooses the lag order (ours)."""

from dataclasses import dataclass

from ..core.protocol import FederatedAlgorithm, OnceBroadcast
from ..core.schema import longest_reach
from ..errors import require
from ..graphs.structure import Structure, no_edges
from ..moments.pooled import information_criteria, least_bic
from .var import Moments, Server, summed_windows


@dataclass(frozen=True)
class LagOrder:
    """Settings of the choice."""

    most_lags: int = 5
    """how many lags are looked at, if the series are long enough"""
    most_parents: int = 12
    """of a variable, in the structures that BIC compares"""

    def __post_init__(self) -> None:
        """Raise `BadInput` for a value outside its range."""
        require(self.most_lags >= 1, "most_lags", self.most_lags, "1 or more")
        require(self.most_parents >= 1, "most_parents", self.most_parents, "1 or more")


def build(settings: LagOrder) -> FederatedAlgorithm[Server, Moments, OnceBroadcast, Moments]:
    """The algorithm of one sum; its server is what `chosen` reads."""

    def structure(server: Server) -> Structure:
        """No edges: the lag order is all that is asked for."""
        return no_edges(server.schema.variables)

    return summed_windows(lambda schema: longest_reach(schema, settings.most_lags), structure, center=True)


def chosen(server: Server, settings: LagOrder) -> tuple[int, tuple[float, ...]]:
    """The lag order of least BIC, and the BIC of 1, 2, ... lags (`moments/pooled.py`)."""
    found = information_criteria(server.covariance, server.rows, len(server.schema.variables), settings.most_parents)
    return least_bic(found), tuple(map(float, found))
