"""NOTEARS-MLP-ADMM: consensus ADMM over the silos' perceptrons (Ng & Zhang 2022, §5.2).

The loop is the papers' (`admm/consensus.py`), the parameters are θ `[m, d]`. What leaves a silo: θ_p, dense, every
round, and ‖θ_p − Θ‖². What the server needs: the sums. A round costs a silo some twenty gradients, each of
O(n_p·d²·units).
"""

from dataclasses import dataclass
from typing import Any

from ..admm.consensus import consensus_admm
from ..admm.messages import Broadcast, Reply
from ..admm.settings import ConsensusSettings
from ..core.protocol import FederatedAlgorithm
from ..errors import require
from .model import MlpModel
from .settings import MlpSettings


@dataclass(frozen=True)
class NotearsMlpAdmm(ConsensusSettings, MlpSettings):
    """Settings of `notears-mlp-admm`.

    The authors' λ₂ and τ are 0.01 and 0.3. The order of the variables is settled well before h is nothing, and what
    comes after, under an ever steeper penalty, adds edges that are not there: so h and the residuals may stay large.
    """

    rho1: float = 0.1
    rho1_growth: float = 1.3
    rho2: float = 0.1
    l1: float = 0.01
    l2: float = 0.003
    threshold: float = 0.5
    h_tolerance: float = 1e-3
    tolerance: float = 0.2
    w_steps: int = 50
    steps: int = 20
    """L-BFGS steps of a silo a round"""

    def __post_init__(self) -> None:
        """Raise `BadInput` for a value outside its range."""
        ConsensusSettings.__post_init__(self)
        MlpSettings.__post_init__(self)
        require(self.steps >= 1, "steps", self.steps, "1 or more")


def build(settings: NotearsMlpAdmm) -> FederatedAlgorithm[Any, Any, Broadcast, Reply]:
    """Return NOTEARS-MLP-ADMM."""
    return consensus_admm(settings, MlpModel(settings, settings.steps), l1_at_server=True)
