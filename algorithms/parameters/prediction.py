"""Predictions of the empty cells of a table by a Bayesian network, each given the filled cells of its row.

In networks of numbers alone, the distribution of an empty cell is conditional normal. In other networks, it is
proportional to the product of the variable's own local distribution and its children's local distributions, if the
Markov blanket of the variable is filled. For labels this product is exact; for numbers it is computed on a grid of
`GRID` values. For rows in which the Markov blanket is not filled, `inference.answer` is called row by row.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..core.schema import FloatArray
from ..errors import BadInput
from .distributions import Linear
from .inference import NetworkQuery, answer
from .networks import Network

GRID, REACH = 401, 8.0
"""number of values at which the distribution of a number is evaluated, and half their range in standard deviations"""
PREDICTION_SAMPLES = 20_000
"""number of weighted samples for a row with several unknown variables"""


@dataclass(frozen=True)
class Predicted:
    """Predictions of one variable in the rows `[n]` in which it was empty."""

    rows: NDArray[np.int64]
    best: FloatArray
    """the code of the likeliest label, or the mean; NaN in rows of probability zero, or nearly zero, under the model"""
    certainty: FloatArray
    """the probability of the likeliest label, or the standard deviation"""


def predictions(
    network: Network, table: FloatArray, variables: Sequence[str], rng: np.random.Generator
) -> dict[str, Predicted]:
    """The predictions of the empty cells (NaN) of `variables` in `table` `[n_rows, d]`, labels as codes.

    Columns are in the order of the network's variables. `rng` draws samples for rows with several unknown variables, if
    the network has labels and numbers. Raises `BadInput` for an unknown variable.
    """
    found = {}
    for name in variables:
        v = network.index(name)
        rows = np.flatnonzero(np.isnan(table[:, v]))
        if network.linear:
            best, certainty = _by_normal(network, v, table[rows])
        else:
            best, certainty = _by_blanket(network, v, table[rows], rng)
        found[name] = Predicted(rows, best, certainty)
    return found


def _by_normal(network: Network, v: int, rows: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Mean and standard deviation of variable v given the filled cells of each of `rows`."""
    mean, S = network.joint_normal()
    best, certainty = np.empty(len(rows)), np.empty(len(rows))
    patterns, which = np.unique(~np.isnan(rows), axis=0, return_inverse=True)
    for k, pattern in enumerate(patterns):
        own, given = np.flatnonzero(which.ravel() == k), np.flatnonzero(pattern)
        gain = np.linalg.pinv(S[np.ix_(given, given)], hermitian=True) @ S[given, v]
        best[own] = mean[v] + (rows[np.ix_(own, given)] - mean[given]) @ gain
        certainty[own] = np.sqrt(max(float(S[v, v] - S[v, given] @ gain), 0.0))
    return best, certainty


def _by_blanket(network: Network, v: int, rows: FloatArray, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
    """The prediction of variable v in each of `rows`, from its Markov blanket if this is filled, else by a query."""
    dag = network.dag
    children = np.flatnonzero(dag[v]).tolist()
    blanket = dag[:, v] | dag[v] | dag[:, children].any(axis=1)
    blanket[v] = False
    whole = ~np.isnan(rows[:, blanket]).any(axis=1)
    best, certainty = np.full(len(rows), np.nan), np.full(len(rows), np.nan)
    if whole.any():
        best[whole], certainty[whole] = _local(network, v, children, rows[whole])
    known: dict[bytes, tuple[float, float]] = {}
    for r in np.flatnonzero(~whole):
        key = rows[r].tobytes()
        if key not in known:
            known[key] = _by_query(network, v, rows[r], rng)
        best[r], certainty[r] = known[key]
    return best, certainty


def _local(network: Network, v: int, children: Sequence[int], rows: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The prediction of v, `[n]` each, from its own local distribution and its children's local distributions."""
    local, expected = network.local[v], network.given_parents(v, rows)
    if isinstance(local, Linear):
        values = expected[:, None] + np.linspace(-REACH, REACH, GRID) * np.sqrt(local.variance)
    else:
        values = np.broadcast_to(np.arange(expected.shape[1], dtype=np.float64), expected.shape)
    logs = np.empty(values.shape)
    for k in range(values.shape[1]):
        trial = rows.copy()
        trial[:, v] = values[:, k]
        logs[:, k] = local.log_density(expected, values[:, k])
        for child in children:
            logs[:, k] += network.log_density(child, trial)
    highest = logs.max(axis=1, keepdims=True)
    share = np.exp(logs - np.where(np.isfinite(highest), highest, 0.0))
    with np.errstate(invalid="ignore"):  # a row of probability zero under the model has no prediction
        share = share / share.sum(axis=1, keepdims=True)
    if isinstance(local, Linear):
        mean = (share * values).sum(axis=1)
        return mean, np.sqrt((share * (values - mean[:, None]) ** 2).sum(axis=1))
    best = np.where(np.isnan(share[:, 0]), np.nan, share.argmax(axis=1))
    return best, share.max(axis=1)


def _by_query(network: Network, v: int, row: FloatArray, rng: np.random.Generator) -> tuple[float, float]:
    """The prediction of v in a row with other empty cells; NaN if the row is too unlikely for the samples."""
    name = network.variables[v]
    filled = [u for u in np.flatnonzero(~np.isnan(row)).tolist() if u != v]
    given = {
        network.variables[u]: network.levels[network.variables[u]][int(row[u])]
        if network.variables[u] in network.levels
        else float(row[u])
        for u in filled
    }
    try:
        found = answer(network, NetworkQuery(targets=(name,), given=given), rng, PREDICTION_SAMPLES)
    except BadInput:
        return np.nan, np.nan
    if found.mean is not None and found.sd is not None:
        return found.mean, found.sd
    shares = list(found.probabilities.values())
    best = int(np.argmax(shares))
    return float(best), shares[best]
