"""How likely rows are under a network with its parameters: log densities, of labels log probabilities."""

import numpy as np

from ..core.schema import FloatArray
from .mixed_network import Linear, MixedNetwork
from .networks import DiscreteNetwork, DynamicGaussianNetwork, GaussianNetwork, Network


def log_likelihood(network: Network, table: FloatArray) -> FloatArray:
    """Return the log likelihood `[n_rows]` of each row of `table` `[n_rows, d]`, natural logarithms.

    Columns are in the order of the network's variables, labels as codes. Raises `ValueError` for a network over time,
    under which rows are not independent.
    """
    if isinstance(network, DynamicGaussianNetwork):
        raise ValueError("rows of time series are not independent: a likelihood of single rows is not defined")
    if isinstance(network, GaussianNetwork):
        residuals = table - network.intercepts - table @ network.structure.weights
        return np.asarray(_of_normal(residuals, network.variances).sum(axis=1))
    if isinstance(network, DiscreteNetwork):
        return _of_tables(network, table.astype(np.int64))
    return _of_mixed(network, table)


def _of_normal(residuals: FloatArray, variances: FloatArray | float) -> FloatArray:
    """Return the log density of each of the `residuals`; of a variance of 0 it is as if that were tiny."""
    least = np.maximum(variances, np.finfo(np.float64).tiny)
    return np.asarray(-0.5 * (np.log(2 * np.pi * least) + residuals**2 / least))


def _of_tables(network: DiscreteNetwork, codes: np.ndarray[tuple[int, ...], np.dtype[np.int64]]) -> FloatArray:
    place = {name: number for number, name in enumerate(network.variables)}
    total = np.zeros(len(codes))
    for name in network.variables:
        columns = [place[one] for one in (*network.parents[name], name)]
        with np.errstate(divide="ignore"):  # a probability of 0 is a likelihood of 0
            total += np.log(network.tables[name])[tuple(codes[:, columns].T)]
    return total


def _of_mixed(network: MixedNetwork, table: FloatArray) -> FloatArray:
    total, rows = np.zeros(len(table)), np.arange(len(table))
    for v, local in enumerate(network.local):
        expected = network.given_parents(v, table)
        if isinstance(local, Linear):
            total += _of_normal(table[:, v] - expected, local.variance)
        else:
            with np.errstate(divide="ignore"):
                total += np.log(expected[rows, table[:, v].astype(np.int64)])
    return total
