"""DP-Fed-BNSL: each silo releases its own private covariance, and all else is post-processing.

Source: Fassy El Fehri et al., §6.3; Wang 2018.

What leaves a silo: bucket counts and second moments, each private by itself; nobody needs to be trusted. After that,
the paper's further rounds of notears-admm would tell the server nothing new: the objective Σ_p L(B; S_p) depends on the
S_p only through their mean, so the server minimises it alone, with the same settings and without further messages. The
noise of the mean of P private covariances is √P times that of `secure-sum`, where the silos share the noise of one.
"""

from dataclasses import dataclass

from ..core.protocol import FederatedAlgorithm
from ..core.schema import Schema
from ..privacy.settings import require_private
from ..privacy.shares import Shares
from .parts import Broadcast, Reply, Silo
from .pooled import Learner
from .summed import Server, summed_moments
from .summed_settings import SummedMoments


@dataclass(frozen=True)
class DpCovariance(SummedMoments):
    """Settings of `dp-covariance`."""

    learner: Learner = "notears-admm"
    l1: float = 0.1
    epsilon: float = 1.0

    def __post_init__(self) -> None:
        """Raise `BadInput` for a value outside its range."""
        super().__post_init__()
        require_private(self)


def build(settings: DpCovariance) -> FederatedAlgorithm[Server, Silo, Broadcast, Reply]:
    """Return the algorithm: two exchanges, one with a known scale."""
    return summed_moments(settings, lambda schema: plan(settings, schema))


def plan(settings: DpCovariance, schema: Schema) -> Shares:
    """Return the noise that makes a silo's release private by itself."""
    return settings.shares(schema, 1, "from everyone but the silo that holds the record")
