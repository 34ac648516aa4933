"""NOTEARS on one table: the consensus loop with a single silo (Zheng et al. 2018; Ng & Zhang 2022, §6).

With one silo, consensus ADMM solves NOTEARS' own problem: ½/n ‖X − XW‖² + λ‖W‖₁ subject to h(W) = 0, with a growing
penalty on h.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..core.protocol import learn_alone
from ..core.schema import Schema
from ..core.settings import Count, Factor, NonNegative
from ..graphs.structure import Structure
from .fed_sparse import FedSparse, build


@dataclass(frozen=True)
class Notears(FedSparse):
    """Settings of NOTEARS on one table; rounds cost no traffic, so ρ₁ grows slowly, and no small change is left out."""

    rho1_growth: Factor = 1.2
    send_threshold: NonNegative = 0.0
    rounds: Count = 200


def notears(table: NDArray[np.float64], schema: Schema, settings: Notears) -> Structure:
    """The structure that NOTEARS learns from `table` `[n_rows, n_variables]`, a silo with this `schema`."""
    return learn_alone(build(settings), schema, table)
