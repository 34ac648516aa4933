"""Graph searches on pooled second moments, exact or private: PC by Fisher's z, a CPDAG (003 with one sum).

Second moments say nothing of means: variables count as centred. Tests reckon with the noise of private moments.
"""

import numpy as np

from ..constraint.fisher_z import fisher_z
from ..constraint.procedures import PC
from ..constraint.search import plan, run
from ..constraint.settings import ConstraintSettings
from ..graphs.structure import Structure
from ..protocol import FloatArray


def pc_from_moments(S: FloatArray, rows: int, noise: float, variables: tuple[str, ...], alpha: float) -> Structure:
    """Return the CPDAG that PC finds in second moments `S` `[d, d]` of so many `rows`, with tests of level `alpha`.

    `noise` is the standard deviation of what noise there is in the correlations.
    """
    settings = ConstraintSettings(alpha=alpha, rows_per_cell=0.0)
    correlations = correlation(S)
    search = plan(settings, np.ones(len(S), np.int64), rows, PC.pools)
    found = run(search, lambda tests: fisher_z(rows, correlations, tests, noise))
    return PC.graph(found, variables, settings.orientation)


def correlation(S: FloatArray) -> FloatArray:
    """Return second moments `S` `[d, d]` in units of their root mean squares."""
    scale = np.sqrt(np.diag(S))
    return np.asarray(S / np.outer(scale, scale))
