"""FedPC and FedFCI: PC and FCI whose independence tests are federated (003), and the same on rows in one place.

What leaves a silo: of discrete data, the count tables over the sets of variables that the search asks for, one exchange
for each size of conditioning set; of continuous data, its moments, once. What the server needs: their sum.
"""

from dataclasses import dataclass
from typing import Literal

from ..admm.settings import require
from ..errors import BadInput
from ..protocol import FederatedAlgorithm
from .evidence import exact
from .federated import Answer, Evidence, Query, Server, Silo, federated_search
from .procedures import FCI, PC, Procedure
from .projection import projected
from .settings import ConstraintSettings


@dataclass(frozen=True)
class FederatedSettings(ConstraintSettings):
    """Settings of `fed-pc` and `fed-fci`."""

    mode: Literal["exact", "projection"] = "exact"
    """how tables are summed: as they are, or their margins and a random projection of the rest (003 Algorithm 1)"""
    projections: int = 50
    """l, the numbers a stratum is projected to"""
    projection_seed: int = 0
    """of the projections, which everyone knows"""

    def __post_init__(self) -> None:
        """Raise `BadInput` for a value outside its range."""
        super().__post_init__()
        require(self.projections >= 2, "projections", self.projections, "2 or more")
        require(self.projection_seed >= 0, "projection_seed", self.projection_seed, "0 or more")


def fed_pc(settings: FederatedSettings) -> FederatedAlgorithm[Server, Silo, Query, Answer]:
    """Return FedPC, for variables without latent common causes."""
    return _federated(settings, PC)


def fed_fci(settings: FederatedSettings) -> FederatedAlgorithm[Server, Silo, Query, Answer]:
    """Return FedFCI, which reckons with latent variables."""
    return _federated(settings, FCI)


def pc(settings: ConstraintSettings) -> FederatedAlgorithm[Server, Silo, Query, Answer]:
    """Return PC: FedPC of exact counts, for one silo that has all rows."""
    return federated_search(settings, PC, lambda kind: exact(settings, kind))


def fci(settings: ConstraintSettings) -> FederatedAlgorithm[Server, Silo, Query, Answer]:
    """Return FCI: FedFCI of exact counts, for one silo that has all rows."""
    return federated_search(settings, FCI, lambda kind: exact(settings, kind))


def _federated(settings: FederatedSettings, procedure: Procedure) -> FederatedAlgorithm[Server, Silo, Query, Answer]:
    def choose(kind: str) -> Evidence:
        if settings.mode == "exact":
            return exact(settings, kind)
        if kind != "discrete":
            raise BadInput(f"parameter mode is projection: that is for count tables, the data are {kind}")
        return projected(settings.projections, settings.projection_seed)

    return federated_search(settings, procedure, choose)
