"""The drift of the parameters from one network to a later one over the same variables.

The drift (`drift_of`) is the Kullback-Leibler divergence of the later joint distribution from the earlier one
(Kullback, Leibler 1951), in nats per row. It is 0 for equal distributions, even if the directions of edges differ. Both
distributions factorise over the variables. So the drift is a sum of one term per variable, E[log p_after(x_v | parents)
- log p_before(x_v | parents)] under the later network. The terms are exact for linear Gaussian networks. For discrete
networks, they are means over rows sampled from the later network.
"""

from dataclasses import dataclass

import numpy as np

from ..core.schema import FloatArray
from ..errors import BadInput
from .networks import Network

DRIFT_ROWS, DRIFT_SEED = 20_000, 0
"""number and seed of the sampled rows that estimate the drift between discrete networks"""
MIN_VARIANCE = 1e-12
"""lower bound on an error variance in comparisons of networks, in units of the variable's variance"""
NOT_COMPARABLE = "parameter drift is defined between two linear Gaussian networks or two discrete ones"


NO_DRIFT = 1e-9
"""maximum drift, in nats per row, that rounding of sums and masks may cause between equal distributions"""


@dataclass(frozen=True)
class Drift:
    """The divergence in nats per row, as a term for each variable; with reversed edges, a term may be negative."""

    by_variable: dict[str, float]

    @property
    def total(self) -> float:
        """The divergence of the joint distributions."""
        return float(sum(self.by_variable.values()))


def drift_of(before: Network, after: Network) -> Drift:
    """The drift of the parameters from `before` to `after`; terms below `NO_DRIFT` are rounding errors and become 0.

    Raises `BadInput` with the reason if the two networks cannot be compared.
    """
    both = (before, after)
    if any(one.lags for one in both) or not (all(one.linear for one in both) or all(one.discrete for one in both)):
        raise BadInput(NOT_COMPARABLE)
    if set(before.variables) != set(after.variables):
        raise BadInput("the variables are not the same")
    terms = (_linear_drift if after.linear else _discrete_drift)(before, after)
    return Drift(dict(zip(after.variables, np.where(np.abs(terms) < NO_DRIFT, 0.0, terms).tolist(), strict=True)))


def _linear_drift(before: Network, after: Network) -> FloatArray:
    """The terms of the drift between linear networks, `[d]`, exactly."""
    positions = [before.place[name] for name in after.variables]
    earlier = before.structure.weights[np.ix_(positions, positions)]
    mean, covariance = after.joint_normal()
    floor = np.maximum(MIN_VARIANCE * np.diag(covariance), np.finfo(float).tiny)
    old, new = np.maximum(before.variances[positions], floor), np.maximum(after.variances, floor)
    residual_map = np.eye(len(positions)) - earlier
    errors = (mean @ residual_map - before.intercepts[positions]) ** 2 + np.einsum(
        "iv,ij,jv->v", residual_map, covariance, residual_map
    )
    return np.asarray(0.5 * (np.log(old / new) + errors / old - 1.0))


def _discrete_drift(before: Network, after: Network) -> FloatArray:
    """The terms of the drift between discrete networks, `[d]`, as means over rows sampled from the later one."""
    for name in after.variables:
        if set(before.levels[name]) != set(after.levels[name]):
            raise BadInput(f"the levels of {name} differ")
    rows, _ = after.sample(DRIFT_ROWS, np.random.default_rng(DRIFT_SEED))
    # The earlier network may list variables and levels in another order.
    codes = np.empty_like(rows)
    for v, name in enumerate(after.variables):
        order = np.array([before.levels[name].index(level) for level in after.levels[name]])
        codes[:, before.place[name]] = order[rows[:, v].astype(np.int64)]
    least = np.log(np.finfo(float).tiny)
    logs = [
        np.maximum(after.log_density(v, rows), least) - np.maximum(before.log_density(before.place[name], codes), least)
        for v, name in enumerate(after.variables)
    ]
    return np.array([np.mean(one) for one in logs])
