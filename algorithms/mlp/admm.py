"""NOTEARS-MLP-ADMM: consensus ADMM over the silos' perceptrons (Ng & Zhang 2022, §5.2)."""

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
    """Settings of `notears-mlp-admm`."""

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

    def __post_init__(self) -> None:
        """Raise `BadInput` for a value outside its range."""
        ConsensusSettings.__post_init__(self)
        MlpSettings.__post_init__(self)
        require(self.steps >= 1, "steps", self.steps, "1 or more")


def build(settings: NotearsMlpAdmm) -> FederatedAlgorithm[Any, Any, Broadcast, Reply]:
    """Return NOTEARS-MLP-ADMM."""
    return consensus_admm(settings, MlpModel(settings, settings.steps), l1_at_server=True)
