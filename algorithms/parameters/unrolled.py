"""A dynamic network as one over a few moments of time: a plain linear Gaussian network, for files and for pgmpy.

Its variables are those at time t under their own names, then those before: "x", ..., "x[t-1]", ..., "x[t-2]". The
earlier ones have no parents there; their means and variances are those of the data, their dependence is left out. So it
says what follows from a given past, which is what a network of time slices is asked for.
"""

import numpy as np
from numpy.typing import NDArray

from ..graphs.lagged import unrolled_names
from ..graphs.structure import Structure
from .networks import DynamicGaussianNetwork, GaussianNetwork


def unrolled_weights(within: NDArray[np.float64], lagged: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the weights of all edges into time t, `[(lags + 1)·d, (lags + 1)·d]`; no edge leads to an earlier time."""
    lags, d, _ = lagged.shape
    weights = np.zeros(((lags + 1) * d,) * 2)
    weights[:d, :d], weights[d:, :d] = within, lagged.reshape(lags * d, d)
    return weights


def unrolled(network: DynamicGaussianNetwork) -> GaussianNetwork:
    """Return `network` over the times t − lags, ..., t."""
    lags = network.structure.lags
    names = unrolled_names(network.structure.variables, lags)
    return GaussianNetwork(
        Structure(names, unrolled_weights(network.structure.weights, network.lagged)),
        np.concatenate([network.intercepts, np.tile(network.means, lags)]),
        np.concatenate([network.variances, np.tile(network.spreads, lags)]),
    )
