"""How far a network's parameters have drifted: how much worse the earlier network explains what the later one says.

The measure is the Kullback-Leibler divergence of the later joint distribution from the earlier one (Kullback, Leibler
1951), in nats a row: 0 if the two say the same, whatever way their edges point. As both factorise over the variables,
it is a sum of one term a variable, E[log p_after(x_v | parents) - log p_before(x_v | parents)] under the later network.
Of linear Gaussian networks it is exact; of discrete ones it is a mean over rows drawn from the later one.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..core.schema import FloatArray
from ..errors import BadInput
from ..graphs.dag import topological_order
from .networks import DiscreteNetwork, GaussianNetwork, Network

DRAWN, SEED = 20_000, 0
LEAST_VARIANCE = 1e-12
"""of an error, in units of the variance that its variable has"""


@dataclass(frozen=True)
class Drift:
    """The divergence in nats a row, by variable; where edges have turned, a single term may be below zero."""

    by_variable: dict[str, float]

    @property
    def total(self) -> float:
        """The divergence of the whole."""
        return float(sum(self.by_variable.values()))


def drift_of(before: Network, after: Network) -> Drift:
    """Return how far the parameters have drifted from `before` to `after`.

    Raises `BadInput` that says why two networks cannot be compared.
    """
    if isinstance(before, GaussianNetwork) and isinstance(after, GaussianNetwork):
        _require_same(before.structure.variables, after.structure.variables)
        return _gaussian(before, after)
    if isinstance(before, DiscreteNetwork) and isinstance(after, DiscreteNetwork):
        _require_same(before.variables, after.variables)
        for name in after.variables:
            if set(before.levels[name]) != set(after.levels[name]):
                raise BadInput(f"{name} had other levels")
        return _discrete(before, after)
    raise BadInput("parameter drift is defined between two linear Gaussian networks or two discrete ones")


def _require_same(before: tuple[str, ...], after: tuple[str, ...]) -> None:
    if set(before) != set(after):
        raise BadInput("the variables are not the same")


def _gaussian(before: GaussianNetwork, after: GaussianNetwork) -> Drift:
    names = after.structure.variables
    at = [before.structure.variables.index(name) for name in names]
    earlier, later = before.structure.weights[np.ix_(at, at)], after.structure.weights
    mixing = np.linalg.inv(np.eye(len(names)) - later)
    mean, covariance = after.intercepts @ mixing, mixing.T @ (after.variances[:, None] * mixing)
    floor = np.maximum(LEAST_VARIANCE * np.diag(covariance), np.finfo(float).tiny)
    old, new = np.maximum(before.variances[at], floor), np.maximum(after.variances, floor)
    missed = np.eye(len(names)) - earlier
    errors = (mean @ missed - before.intercepts[at]) ** 2 + np.einsum("iv,ij,jv->v", missed, covariance, missed)
    return _named(names, 0.5 * (np.log(old / new) + errors / old - 1.0))


def _discrete(before: DiscreteNetwork, after: DiscreteNetwork) -> Drift:
    rows = drawn_codes(after, DRAWN, np.random.default_rng(SEED))
    # The earlier network may list variables and levels in another order.
    codes = {
        name: np.array([before.levels[name].index(level) for level in after.levels[name]])[rows[:, v]]
        for v, name in enumerate(after.variables)
    }
    own = {name: rows[:, v] for v, name in enumerate(after.variables)}
    terms = [np.mean(_logs(after, name, own) - _logs(before, name, codes)) for name in after.variables]
    return _named(after.variables, np.array(terms))


def drawn_codes(network: DiscreteNetwork, rows: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Return drawn rows of a discrete network as codes of levels, `[rows, n_variables]`."""
    place = {name: number for number, name in enumerate(network.variables)}
    drawn = np.zeros((rows, len(place)), np.int64)
    for v in topological_order(network.structure.adjacency):
        name = network.variables[v]
        given = tuple(drawn[:, place[parent]] for parent in network.parents[name])
        passed = np.cumsum(np.broadcast_to(network.tables[name][given], (rows, network.tables[name].shape[-1])), axis=1)
        drawn[:, v] = (rng.random(rows)[:, None] * passed[:, -1:] > passed[:, :-1]).sum(axis=1)
    return drawn


def _logs(network: DiscreteNetwork, name: str, codes: dict[str, NDArray[np.int64]]) -> FloatArray:
    """Return log P(x_v | its parents) of the variable `name` in rows of `codes`, by variable; `[n_rows]`."""
    at = tuple(codes[one] for one in (*network.parents[name], name))
    return np.asarray(np.log(np.maximum(network.tables[name][at], np.finfo(float).tiny)))


def _named(names: tuple[str, ...], terms: FloatArray) -> Drift:
    return Drift(dict(zip(names, terms.tolist(), strict=True)))
