"""The papers' own settings, to be held against the papers: Fassy El Fehri et al., Appendix B.3.2 and B.3.4.

They run the papers' loop with nothing added. ρ₁ is per silo here: the papers' value over their number of silos.
"""

from dataclasses import asdict
from typing import Any, TypeVar

from .settings import Additions, ConsensusSettings

Settings = TypeVar("Settings", bound=ConsensusSettings)

FED_SPARSE = {"rho1": 1000 / 8, "rho2": 1.0, "l1": 0.1, "gamma": 0.5}
"""d = 20, P = 8"""
FED_SPARSE_SACHS = {"rho1": 10_000 / 3, "rho2": 5.0, "l1": 1.0, "gamma": 0.1, "threshold": 0.1}
"""Sachs, P = 3"""
NOTEARS_ADMM = {"rho1": 1000 / 8, "rho2": 1.0, "l1": 0.01, "loops": True}
"""d = 20, P = 8"""
NOTEARS_ADMM_SACHS = {"rho1": 100_000 / 3, "rho2": 10.0, "l1": 0.1, "loops": True, "threshold": 0.1}
"""Sachs, P = 3"""


def papers_own(kind: type[Settings], literals: dict[str, Any]) -> Settings:
    """Return the settings `kind` of the papers' loop alone, with these `literals` of a paper."""
    return kind(**asdict(ConsensusSettings()) | asdict(Additions()) | literals)
