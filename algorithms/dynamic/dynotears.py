"""DYNOTEARS on one table of time series, for the baselines: FDBNL's loop with a single silo (Pamfil et al. 2020).

With one silo, what the consensus splits is DYNOTEARS' own problem: ½/n ‖X − XW − YA‖² + λ_W‖W‖₁ + λ_A‖A‖₁ subject to
h(W) = 0, with the penalty on h growing from a small start.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..core.one_silo import learn_alone
from ..core.schema import Schema
from ..graphs.structure import Structure
from .fdbnl import Fdbnl, build


@dataclass(frozen=True)
class Dynotears(Fdbnl):
    """Settings of DYNOTEARS on one table: no message is paid for, so steps are small and nothing is held back."""

    rho1_growth: float = 1.2
    hold: float = 0.0
    rounds: int = 200


def dynotears(table: NDArray[np.float64], schema: Schema, settings: Dynotears) -> Structure:
    """Return what DYNOTEARS learns from `table` `[n_rows, d]` alone, whose `schema` is that of its one silo."""
    return learn_alone(build(settings), schema, table)
