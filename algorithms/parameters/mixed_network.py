"""Bayesian networks of mixed variables: local distributions, likelihood, sampling and queries.

A continuous variable is linear in its parents. A discrete variable has a table if all its parents are discrete, and a
multinomial logistic regression if a parent is continuous or the table is too large. In regressions, a discrete parent
is coded by the indicators of its levels except the first, as in the degenerate Gaussian score (Andrews et al. 2019).
"""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core.adjustment import NO_ADJUSTMENT, Adjustment
from ..core.schema import FloatArray
from ..errors import BadInput
from ..graphs.dag import topological_order
from ..graphs.structure import Structure
from ..statistics.coding import Coding
from .networks import BayesianNetwork, normal_log_density, past_rows


@dataclass(frozen=True, eq=False)
class Linear:
    """x = intercept + Σ weight · coded parent + N(0, variance); `weights` `[coded columns of the parents]`."""

    intercept: float
    weights: FloatArray
    variance: float


@dataclass(frozen=True, eq=False)
class Logistic:
    """P(level) ∝ exp(intercept + Σ weight · coded parent); intercepts `[levels]`, weights `[levels, coded columns]`."""

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
        """The DAG with weights 1, because an edge at a discrete variable has several coefficients."""
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

        A continuous parent has one coefficient. A discrete parent has one coefficient per level, 0 for the first level.
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
        """The probability of each level of variable `name`, or its mean and standard deviation, `given` other values.

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
        """The index of the variable `name`; raises `BadInput` for an unknown name."""
        if name not in self.variables:
            raise BadInput(f"there is no variable '{name}': available: {', '.join(self.variables)}")
        return self.variables.index(name)

    def code(self, name: str, value: float | str) -> float:
        """The entry of a table for a value of the variable `name`: a number, or the code of its label.

        Raises `BadInput` for an unknown label, and for a value that is not a number.
        """
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


@dataclass(frozen=True, eq=False)
class DynamicMixedNetwork(BayesianNetwork):
    """A network of mixed variables over time: each variable depends on variables at the same and at earlier times.

    `over_time` has the variables at time t under their own names, then the variables at earlier times, "x[t-1]", ...,
    "x[t-2]". Variables at earlier times have no parents: they have the marginal distributions of the data, not their
    joint distribution. So the network is valid only conditionally on a given past.
    """

    variables: tuple[str, ...]
    over_time: MixedNetwork
    adjustment: Adjustment = NO_ADJUSTMENT
    """the components that the silos subtracted from the numbers before the fit"""

    in_pgmpy = False

    @property
    def lags(self) -> int:
        """The number of earlier times."""
        return len(self.over_time.variables) // len(self.variables) - 1

    @property
    def kind(self) -> str:
        """The kind of network with its number of lags."""
        return f"network of mixed variables that looks back over {self.lags} step{'s' * (self.lags != 1)}"

    @property
    def levels(self) -> dict[str, tuple[str, ...]]:
        """The levels of the variables with labels."""
        return {name: labels for name, labels in self.over_time.levels.items() if name in self.variables}

    @property
    def numbers(self) -> NDArray[np.bool_]:
        """Whether each variable is a number, `[d]`."""
        return np.array([name not in self.over_time.levels for name in self.variables])

    @property
    def spreads(self) -> FloatArray:
        """The marginal variances of the numbers, 1 for labels, `[d]`."""
        earlier = self.over_time.local[len(self.variables) : 2 * len(self.variables)]
        return np.array([max(one.variance, 1e-300) if isinstance(one, Linear) else 1.0 for one in earlier])

    @property
    def structure(self) -> Structure:
        """The graph with weights 1."""
        d, edges = len(self.variables), self.over_time.dag.astype(np.float64)
        return Structure(self.variables, edges[:d, :d], lagged=edges[d:, :d].reshape(self.lags, d, d))

    def unrolled(self) -> MixedNetwork:
        """The network over the times t − lags, ..., t."""
        return self.over_time

    def log_likelihood(self, table: FloatArray) -> FloatArray:
        """Raise `ValueError`: a likelihood of single rows is not defined."""
        raise ValueError("rows of time series are not independent: a likelihood of single rows is not defined")

    def as_json(self) -> dict[str, Any]:
        """The JSON of `over_time`, with `variables` and `lags`."""
        adjusted = {"adjustment": asdict(self.adjustment)} if self.adjustment else {}
        return {**self.over_time.as_json(), "variables": list(self.variables), "lags": self.lags, **adjusted}

    def drawn(
        self, past: FloatArray, rng: np.random.Generator, fixed: Mapping[int, float] | None = None
    ) -> tuple[FloatArray, list[FloatArray]]:
        """A row drawn after each of the `past` `[n, lags·d]`, latest first, and its conditional expectations.

        Variables of `fixed` have these values. Each expectation is conditional on the variable's drawn parents: it is
        the mean `[n]` of a number, or the probabilities `[n, levels]` of labels.
        """
        d, n = len(self.variables), len(past)
        table = np.hstack([np.zeros((n, d)), past])
        expected: list[FloatArray] = [np.empty(0)] * d
        for v in (one for one in topological_order(self.over_time.dag) if one < d):
            local, given = self.over_time.local[v], self.over_time.given_parents(v, table)
            expected[v] = given
            if fixed is not None and v in fixed:
                table[:, v] = fixed[v]
            elif isinstance(local, Linear):
                table[:, v] = given + np.sqrt(local.variance) * rng.standard_normal(n)
            else:
                table[:, v] = (rng.random(n)[:, None] > np.cumsum(given, axis=1)[:, :-1]).sum(axis=1)
        return table[:, :d], expected

    def expected(self, past: FloatArray, draws: int, rng: np.random.Generator) -> list[FloatArray]:
        """The mean `[n]`, or the probabilities `[n, levels]`, of each variable after each of the `past` `[n, lags·d]`.

        The results are averages over `draws` rows; they are exact for variables without parents at the same time.
        """
        _, found = self.drawn(np.repeat(past, draws, axis=0), rng)
        return [one.reshape(len(past), draws, *one.shape[1:]).mean(axis=1) for one in found]

    def forecast(
        self, past: Any, draws: int = 4000, rng: np.random.Generator | None = None
    ) -> dict[str, float | dict[str, float]]:
        """The mean of each number, and the probabilities of each label, in the row after `past`.

        Parameters
        ----------
        past
            The rows before, `[lags, d]`, the latest row last: an array of numbers and codes of levels in the order of
            `variables`, or a DataFrame, whose columns are found by name. If series were adjusted, the past has more
            rows, in the original numbers: trend and season are estimated from these rows, and are part of the forecast.
        draws, rng
            The number of samples over which effects within the row are averaged, and the generator of the samples.

        Raises
        ------
        ValueError
            If the past is too short, lacks a column, or has an empty cell (NaN) or an unknown label.
        """
        past = past_rows(past, self.variables, self.levels)
        if len(past) < self.lags:
            raise ValueError(f"a forecast needs a past of {self.lags} rows or more, not {len(past)}")
        if np.isnan(past if self.adjustment else past[-self.lags :]).any():
            raise ValueError("a forecast of series with labels needs a past without empty cells")
        labels, numbers = np.flatnonzero(~self.numbers), np.flatnonzero(self.numbers)
        rng, found = rng or np.random.default_rng(0), dict[str, FloatArray]()

        def predict(rows: FloatArray) -> FloatArray:
            latest = np.empty((self.lags, len(self.variables)))
            latest[:, numbers], latest[:, labels] = rows[-self.lags :], past[-self.lags :, labels]
            expected = self.expected(latest[::-1].reshape(1, -1), draws, rng)
            found.update({self.variables[v]: expected[v][0] for v in labels})
            return np.array([expected[v][0] for v in numbers])

        own = past[:, numbers]
        means = self.adjustment.forecast(own, predict) if self.adjustment else predict(own)
        by_name = dict(zip((self.variables[v] for v in numbers), map(float, means), strict=True))
        return {
            name: by_name[name]
            if name in by_name
            else dict(zip(self.levels[name], map(float, found[name]), strict=True))
            for name in self.variables
        }

    def series(self, rows: int, rng: np.random.Generator, fixed: Mapping[int, float]) -> FloatArray:
        """A drawn series `[rows, d]`, in which the variables of `fixed` always have these values.

        The series may explode.
        """
        d = len(self.variables)
        first, _ = self.over_time.sample(1, rng)
        past, found = first[:, d:], np.empty((rows, d))
        for t in range(rows):
            found[t : t + 1], _ = self.drawn(past, rng, fixed)
            past = np.hstack([found[t : t + 1], past[:, :-d]])
        return found


def softmax(scores: FloatArray) -> FloatArray:
    """The probabilities `[n, levels]` proportional to exp `scores`."""
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=1, keepdims=True))


def _log_likelihood(local: Local, expected: FloatArray, value: float) -> FloatArray:
    if isinstance(local, Linear):
        return np.asarray(-0.5 * (value - expected) ** 2 / local.variance)
    return np.asarray(np.log(np.maximum(expected[:, int(value)], 1e-300)))
