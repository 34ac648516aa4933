"""A ridge vector autoregression: who comes before whom, without the edges within one time (the usual baseline).

With everything in units of standard deviations, C the correlations of the lagged columns and c their correlations with
the present, A = (1 + r)(C + rI)⁻¹c. r = 0 is least squares, a large r the correlations themselves: between them, a
variable's own shadows in its correlates are held back. The factor 1 + r takes the shrinkage off again.

On few, short series, such as those of gene expression, this is hard to beat at telling who drives whom. What helps
there is a common mean (not one a series, which takes the levels away), standard deviations as units, and a large r.
"""

from dataclasses import dataclass
from functools import partial

import numpy as np

from ..core.lags import AUTO, Lags, reach, require_lags
from ..core.one_exchange import Broadcast
from ..core.protocol import FederatedAlgorithm
from ..core.schema import FloatArray
from ..errors import require
from ..graphs.structure import Structure
from ..moments.lag_order import of_least_bic
from ..statistics.moments import in_own_units
from .summed_windows import Moments, Server, summed_windows


@dataclass(frozen=True)
class Var:
    """Settings of `var`."""

    lags: Lags = 1
    """p, how many steps back an edge may reach; auto: by BIC"""
    most_lags: int = 5
    """how many lags `auto` looks at, if the series are long enough"""
    ridge: float = 10.0
    """r, in units of the variables' variances; 0: least squares"""
    threshold: float = 0.2
    """τ: effects not above it, in standard deviations, are no edges"""
    center: bool = False
    """subtract each silo's own levels, not the common means alone: where sites measure from different zeros"""
    hubs: bool = False
    """weigh the strengths of a variable's effects by their root mean square: a few variables drive many"""

    def __post_init__(self) -> None:
        """Raise `BadInput` for a value outside its range."""
        require_lags(self.lags)
        require(self.most_lags >= 1, "most_lags", self.most_lags, "1 or more")
        require(self.ridge >= 0, "ridge", self.ridge, "0 or more")
        require(self.threshold >= 0, "threshold", self.threshold, "0 or more")


def build(settings: Var) -> FederatedAlgorithm[Server, Moments, Broadcast, Moments]:
    """Return the algorithm of one sum."""
    return summed_windows(
        lambda schema: reach(schema, settings.lags, settings.most_lags),
        partial(structure, settings),
        center=settings.center,
    )


def structure(settings: Var, server: Server) -> Structure:
    """Return the lagged effects above τ, in standard deviations; no edges within one time."""
    names = server.schema.variables
    d = len(names)
    if not server.rows:
        return Structure(names, np.zeros((d, d)), lagged=np.zeros((server.reach, d, d)))
    S = server.covariance
    if settings.lags == AUTO:
        S = of_least_bic(S, server.rows, d, MOST_PARENTS)
    effects = ridge_effects(in_own_units(S), d, settings.ridge)
    strengths = np.abs(effects)
    if settings.hubs:
        others = np.where(np.eye(d, dtype=bool), 0.0, strengths)
        strengths = strengths * np.sqrt((others**2).mean(axis=2, keepdims=True))
    edges = np.where(np.abs(effects) > settings.threshold, effects, 0.0)
    nothing = np.zeros((d, d))
    return Structure(names, nothing, scores=nothing, lagged=edges, lagged_scores=strengths)


MOST_PARENTS = 12
"""of a variable, in the structures that BIC compares"""


def ridge_effects(C: FloatArray, d: int, ridge: float) -> FloatArray:
    """Return (1 + r)(C_LL + rI)⁻¹C_LX, `[lags, d, d]`, for correlations `C` `[m, m]` of present X and lagged L."""
    past = C[d:, d:] + ridge * np.eye(len(C) - d)
    effects = (1 + ridge) * np.linalg.lstsq(past, C[d:, :d], rcond=None)[0]
    return np.asarray(effects.reshape(-1, d, d), dtype=np.float64)
