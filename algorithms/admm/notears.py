"""NOTEARS on one table, for the baselines: the consensus loop with a single silo.

Source: Zheng et al. 2018; Ng & Zhang 2022, §6.

With one silo, B = W splits the loss from the acyclicity and everything else is NOTEARS' own problem: ½/n ‖X − XW‖² +
λ‖W‖₁ subject to h(W) = 0, with the penalty on h growing from a small start.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..core.one_silo import learn_alone
from ..core.schema import Schema
from ..graphs.structure import Structure
from .fed_sparse import FedSparse, build


@dataclass(frozen=True)
class Notears(FedSparse):
    """Settings of NOTEARS on one table: no message is paid for, so steps are small and nothing is held back."""

    rho1_growth: float = 1.2
    w_steps: int = 20
    hold: float = 0.0
    rounds: int = 200


def notears(table: NDArray[np.float64], schema: Schema, settings: Notears) -> Structure:
    """Return what NOTEARS learns from `table` `[n_rows, n_variables]` alone, whose `schema` is that of its one silo."""
    return learn_alone(build(settings), schema, table)
