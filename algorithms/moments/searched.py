"""Graph searches on pooled second moments, exact or private: PC by Fisher's z and GES by BIC, CPDAGs from one sum.

Second moments do not contain means: the variables count as centred. The tests allow for the noise of private moments;
the BIC treats noise as a loss of rows.
"""

import numpy as np

from ..constraint.fisher_z import fisher_z
from ..constraint.procedures import PC
from ..constraint.search import plan, run
from ..constraint.settings import ConstraintSettings
from ..core.knowledge import Prior, no_prior
from ..core.schema import FloatArray
from ..graphs.structure import Structure
from ..score.gaussian import score_covariance
from ..score.procedures import GES, search
from ..score.settings import SearchSettings
from ..statistics.moments import in_own_units

# The factor by which regressions on a few parents amplify noise: found on graphs of 10 variables, ε from 1 to 20.
GROWN = 10.0


def pc_from_moments(
    S: FloatArray, rows: int, noise: float, variables: tuple[str, ...], alpha: float, prior: Prior | None = None
) -> Structure:
    """Return the CPDAG that PC finds in second moments `S` `[d, d]` of so many `rows`, with tests of level `alpha`.

    `noise` is the standard deviation of the noise in the correlations, `prior` what is known of the graph.
    """
    settings = ConstraintSettings(alpha=alpha, rows_per_cell=0.0)
    correlations = in_own_units(S)
    search = plan(settings, np.ones(len(S), np.int64), rows, PC.pools, prior)
    found = run(search, lambda tests: fisher_z(rows, correlations, tests, noise))
    return PC.graph(found, variables, settings.orientation, prior or no_prior(len(S)))


def ges_from_moments(
    S: FloatArray, rows: int, noise: float, variables: tuple[str, ...], prior: Prior | None = None
) -> Structure:
    """Return the CPDAG that GES, by Gaussian BIC, finds in second moments `S` `[d, d]` of so many `rows`.

    `noise` is the standard deviation of the noise in the correlations. Conditioning on parents amplifies it: S is
    treated as if it came from 1/(1/n + (GROWN·noise)²) rows.
    """
    blurred, correlations = int(1 / (1 / rows + (GROWN * noise) ** 2)), in_own_units(S)
    graph = search(GES, len(S), SearchSettings(), lambda batch: score_covariance(blurred, correlations, batch), prior)
    return Structure(variables, graph.astype(np.float64), "cpdag")
