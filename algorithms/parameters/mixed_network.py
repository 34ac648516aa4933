"""Bayesian networks of mixed variables: local distributions, likelihood, sampling and queries.

A continuous variable is linear in its parents, a discrete one of discrete parents has a table, and a discrete one with
a continuous parent a multinomial logistic regression. In regressions a discrete parent is coded by the indicators of
its levels but the first, as in the degenerate Gaussian score (Andrews et al. 2019).
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core.schema import FloatArray
from ..errors import BadInput
from ..graphs.dag import topological_order
from ..graphs.structure import Structure
from ..statistics.coding import Coding
from .networks import BayesianNetwork, normal_log_density


@dataclass(frozen=True, eq=False)
class Linear:
    """x = intercept + Σ weight · coded parent + N(0, variance); `weights` `[coded columns of the parents]`."""

    intercept: float
    weights: FloatArray
    variance: float


@dataclass(frozen=True, eq=False)
class Logistic:
    """P(level) ∝ exp(intercept + Σ weight · coded parent): `[levels]`, `[levels, coded columns]`; zero for level 1."""

    intercepts: FloatArray
    weights: FloatArray


@dataclass(frozen=True, eq=False)
class Tabular:
    """P(level | parents), `[levels of the first parent, ..., levels]`; the last axis sums to 1."""

    table: FloatArray


Local = Linear | Logistic | Tabular


@dataclass(frozen=True, eq=False)
class MixedNetwork(BayesianNetwork):
    """P(x) = Π_v P(x_v | parents of v); `parents[v]` are indices of variables, ascending."""

    coding: Coding
    levels: dict[str, tuple[str, ...]]
    parents: tuple[tuple[int, ...], ...]
    local: tuple[Local, ...]

    in_pgmpy = False
    kind = "network of mixed variables: linear and logistic regressions, and tables"

    @property
    def variables(self) -> tuple[str, ...]:
        """The names of the variables."""
        return self.coding.variables

    @property
    def dag(self) -> NDArray[np.bool_]:
        """The edges, `[d, d]`."""
        edges = np.zeros((len(self.parents),) * 2, np.bool_)
        for v, own in enumerate(self.parents):
            edges[list(own), v] = True
        return edges

    @property
    def structure(self) -> Structure:
        """The DAG with weights 1: an edge at a discrete variable has one coefficient per level."""
        return Structure(self.variables, self.dag.astype(np.float64))

    def given_parents(self, v: int, table: FloatArray) -> FloatArray:
        """The means `[n_rows]` of variable v given its parents' values in `table` `[n_rows, d]`.

        For a discrete variable, the probabilities of its levels, `[n_rows, levels]`.
        """
        own, local = list(self.parents[v]), self.local[v]
        if isinstance(local, Tabular):
            found = local.table[tuple(table[:, own].astype(np.int64).T)] if own else local.table
            return np.broadcast_to(found, (len(table), local.table.shape[-1]))
        columns = self.coding.subset(own).rows(table[:, own])
        if isinstance(local, Linear):
            return np.asarray(local.intercept + columns @ local.weights)
        return softmax(local.intercepts + columns @ local.weights.T)

    def log_likelihood(self, table: FloatArray) -> FloatArray:
        """The log likelihood `[n_rows]` of each row: log densities plus log probabilities."""
        total, rows = np.zeros(len(table)), np.arange(len(table))
        for v, local in enumerate(self.local):
            expected = self.given_parents(v, table)
            if isinstance(local, Linear):
                total += normal_log_density(table[:, v] - expected, local.variance)
            else:
                with np.errstate(divide="ignore"):
                    total += np.log(expected[rows, table[:, v].astype(np.int64)])
        return total

    def as_json(self) -> dict[str, Any]:
        """`nodes`, `levels`, `parents`, and the `families` by variable: linear, logistic or a table.

        Coefficients are one number per continuous parent, and one per level of a discrete one, 0 for the first level.
        """
        families: dict[str, Any] = {}
        for name, own, local in zip(self.variables, self.parents, self.local, strict=True):
            if isinstance(local, Tabular):
                families[name] = {"kind": "table", "table": local.table.tolist()}
            elif isinstance(local, Linear):
                terms = self._coefficients(own, local.weights)
                families[name] = {
                    "kind": "linear",
                    "intercept": local.intercept,
                    "coefficients": terms,
                    "variance": local.variance,
                }
            else:
                families[name] = {
                    "kind": "logistic",
                    "intercepts": dict(zip(self.levels[name], local.intercepts.tolist(), strict=True)),
                    "coefficients": {
                        label: self._coefficients(own, weights)
                        for label, weights in zip(self.levels[name], local.weights, strict=True)
                    },
                }
        return {
            "nodes": list(self.variables),
            "levels": {name: list(labels) for name, labels in self.levels.items()},
            "parents": {
                name: [self.variables[u] for u in own] for name, own in zip(self.variables, self.parents, strict=True)
            },
            "families": families,
        }

    def _coefficients(self, own: tuple[int, ...], weights: FloatArray) -> dict[str, Any]:
        """The weights by parent: a number, or a number per level of a discrete parent."""
        coefficients: dict[str, Any] = {}
        begin = 0
        for u in own:
            name, width = self.variables[u], self.coding.widths[u]
            part = weights[begin : begin + width].tolist()
            begin += width
            coefficients[name] = (
                dict(zip(self.levels[name], [0.0, *part], strict=True)) if name in self.levels else part[0]
            )
        return coefficients

    def sample(
        self, rows: int, rng: np.random.Generator, given: Mapping[str, float | str] | None = None
    ) -> tuple[FloatArray, FloatArray]:
        """Sampled rows `[rows, d]`, discrete values as codes, and the weight of each row, `[rows]`.

        `given` values are fixed, and the weight of a row is their likelihood given their parents (likelihood weighting;
        Fung, Chang 1990). Raises `BadInput` for an unknown name or label.
        """
        evidence = {self.index(name): self.code(name, value) for name, value in (given or {}).items()}
        table, logs = np.zeros((rows, len(self.parents))), np.zeros(rows)
        for v in topological_order(self.dag):
            local, expected = self.local[v], self.given_parents(v, table)
            if v in evidence:
                table[:, v] = evidence[v]
                logs += _log_likelihood(local, expected, evidence[v])
            elif isinstance(local, Linear):
                table[:, v] = expected + np.sqrt(local.variance) * rng.standard_normal(rows)
            else:
                cumulative = np.cumsum(expected, axis=1)
                table[:, v] = (rng.random(rows)[:, None] * cumulative[:, -1:] > cumulative[:, :-1]).sum(axis=1)
        weights = np.exp(logs - logs.max()) if rows else logs
        return table, weights

    def query(
        self, name: str, given: Mapping[str, float | str], rng: np.random.Generator, rows: int = 20_000
    ) -> dict[str, float]:
        """The probability of each level of variable `name` `given` others, or its mean and standard deviation.

        The estimates are from `rows` weighted samples. Raises `BadInput` for an unknown name or label.
        """
        v = self.index(name)
        table, weights = self.sample(rows, rng, given)
        share = weights / weights.sum()
        if name in self.levels:
            return {label: float(share[table[:, v] == code].sum()) for code, label in enumerate(self.levels[name])}
        mean = float(share @ table[:, v])
        return {"mean": mean, "sd": float(np.sqrt(share @ (table[:, v] - mean) ** 2))}

    def index(self, name: str) -> int:
        """The index of the variable `name`."""
        if name not in self.variables:
            raise BadInput(f"there is no variable '{name}': available: {', '.join(self.variables)}")
        return self.variables.index(name)

    def code(self, name: str, value: float | str) -> float:
        """The entry of a table for a value of the variable `name`: a number, or the code of its label."""
        if name not in self.levels:
            try:
                number = float(value)
            except ValueError:
                number = math.nan
            if not math.isfinite(number):
                raise BadInput(f"{name}: '{value}' is not a number")
            return number
        if str(value) not in self.levels[name]:
            raise BadInput(f"{name}: there is no label '{value}': available: {', '.join(self.levels[name])}")
        return float(self.levels[name].index(str(value)))


def softmax(scores: FloatArray) -> FloatArray:
    """The probabilities `[n, levels]` proportional to exp `scores`."""
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=1, keepdims=True))


def _log_likelihood(local: Local, expected: FloatArray, value: float) -> FloatArray:
    if isinstance(local, Linear):
        return np.asarray(-0.5 * (value - expected) ** 2 / local.variance)
    return np.asarray(np.log(np.maximum(expected[:, int(value)], 1e-300)))
