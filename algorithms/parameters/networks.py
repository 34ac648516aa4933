"""Bayesian networks with their parameters: over discrete variables, linear Gaussian ones, over time, and mixed ones."""

from dataclasses import dataclass

import numpy as np

from ..core.schema import FloatArray
from ..graphs.structure import Structure
from .mixed_network import MixedNetwork


@dataclass(frozen=True, eq=False)
class DiscreteNetwork:
    """P(x) = Π_v P(x_v | parents of v).

    `tables[v]` is [n_levels of the first parent, ..., of the last parent, n_levels of v]: its last axis sums to 1, as
    closely as it was published. `parents[v]` are in the order of those axes.
    """

    variables: tuple[str, ...]
    levels: dict[str, tuple[str, ...]]
    parents: dict[str, tuple[str, ...]]
    tables: dict[str, FloatArray]

    def __post_init__(self) -> None:
        """Refuse tables that do not fit levels and parents: a mistake of the program, not of the user."""
        for name in self.variables:
            shape = tuple(len(self.levels[one]) for one in (*self.parents[name], name))
            if self.tables[name].shape != shape:
                raise ValueError(f"{name}: a table of {self.tables[name].shape}, not {shape}")

    @property
    def structure(self) -> Structure:
        """The DAG, every edge of weight 1."""
        place = {name: number for number, name in enumerate(self.variables)}
        weights = np.zeros((len(place), len(place)))
        for name in self.variables:
            weights[[place[parent] for parent in self.parents[name]], place[name]] = 1.0
        return Structure(self.variables, weights)


@dataclass(frozen=True, eq=False)
class GaussianNetwork:
    """A linear Gaussian network: x_j = intercept_j + Σ_i W_ij x_i + N(0, variance_j), W the weights of the DAG."""

    structure: Structure
    intercepts: FloatArray
    variances: FloatArray


@dataclass(frozen=True, eq=False)
class DynamicGaussianNetwork:
    """A linear Gaussian network over time: x_t = intercepts + x_t W + Σ_k x_{t−k} A_k + u_t, u_tj ~ N(0, variance_j).

    `structure` has W as `weights` and the A_k as `lagged` (Chen, Ma & Yue, §2). `means` and `spreads` `[d]` are the
    mean and the variance of each variable whatever was before it: all that is said of the times before the first.
    """

    structure: Structure
    intercepts: FloatArray
    variances: FloatArray
    means: FloatArray
    spreads: FloatArray

    def __post_init__(self) -> None:
        """Refuse a structure without lags: a mistake of the program, not of the user."""
        if not self.structure.lags:
            raise ValueError("a dynamic network needs a structure with lags")

    @property
    def lagged(self) -> FloatArray:
        """The weights A of the lagged edges, `[lags, d, d]`."""
        assert self.structure.lagged is not None
        return self.structure.lagged


Network = DiscreteNetwork | GaussianNetwork | DynamicGaussianNetwork | MixedNetwork
