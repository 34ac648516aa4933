"""Bayesian networks with their parameters: one class for discrete, linear Gaussian and mixed networks, also over time.

A `Network` is an ordered set of variables, each with its parents and its distribution given them:
P(x) = Π_v P(x_v | parents of v). All that a network does follows from these distributions: likelihoods, samples,
interventions and forecasts. Where a network is linear Gaussian, the joint normal distribution gives exact results;
elsewhere, results are averages over samples.

A network over time has `lags`: its variables depend on variables at the same time and at earlier times. Its nodes are
the variables at time t, then those at earlier times: "x", ..., "x[t-1]", ..., "x[t-2]". Nodes at earlier times have no
parents: they have the marginal distributions of the data, not their joint distribution. So the network is valid only
conditionally on a given past. A linear network over time is x_t = c + x_t W + Σ_k x_{t−k} A_k + u_t (Chen, Ma & Yue,
§2). Solved for x_t it has the reduced form x_t = (c + Σ_k x_{t−k} A_k + u_t)(I − W)⁻¹ (Lütkepohl 2005, §9), which
forecasts the next row.
"""

import math
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core.adjustment import NO_ADJUSTMENT, Adjustment
from ..core.schema import FloatArray
from ..errors import BadInput, pluralize
from ..graphs.dag import topological_order
from ..graphs.structure import Structure, unrolled_names
from ..statistics import moments
from ..statistics.coding import Coding
from .distributions import Distribution, Linear, Tabular


@dataclass(frozen=True, eq=False)
class Network:
    """A Bayesian network of numbers, labels or both, of single rows or over time.

    Parameters
    ----------
    variables
        The names of the variables, in the order of the columns of tables.
    levels
        The levels of each label, in the order of their codes; of a network over time, for all nodes.
    parents
        The parents of each node; nodes at earlier times may be left out.
    distributions
        The distribution of each node given its parents, with axes or coded columns in the order of the parents. An
        array is a `Tabular` of these probabilities.
    lags
        The number of earlier times; 0 for a network of single rows.
    adjustment
        The components that the silos subtracted from the series before the fit.

    Raises
    ------
    ValueError
        For a name that occurs twice, and for distributions that do not fit levels and parents (a programming error).
    """

    variables: tuple[str, ...]
    levels: Mapping[str, tuple[str, ...]]
    parents: Mapping[str, tuple[str, ...]]
    distributions: Mapping[str, Distribution | FloatArray]
    lags: int = 0
    adjustment: Adjustment = NO_ADJUSTMENT

    def __post_init__(self) -> None:
        if len(self.place) < len(self.nodes):
            raise ValueError("variables are named more than once")
        for name, own, local in zip(self.nodes, self.parent_numbers, self.local, strict=True):
            if not local.fits(len(self.levels.get(name, ())), self.coding.subset(own)):
                raise ValueError(f"{name}: its distribution does not fit its levels and its parents")

    @property
    def nodes(self) -> tuple[str, ...]:
        """The names of the variables at time t, then at t − 1, ..., t − lags."""
        return unrolled_names(self.variables, self.lags)

    @cached_property
    def place(self) -> dict[str, int]:
        """The number of each node by name."""
        return {name: number for number, name in enumerate(self.nodes)}

    @cached_property
    def parent_numbers(self) -> tuple[tuple[int, ...], ...]:
        """The numbers of each node's parents."""
        return tuple(tuple(self.place[one] for one in self.parents.get(name, ())) for name in self.nodes)

    @cached_property
    def local(self) -> tuple[Distribution, ...]:
        """The distributions in the order of the nodes."""
        found = (self.distributions[name] for name in self.nodes)
        return tuple(one if isinstance(one, Distribution) else Tabular(np.asarray(one)) for one in found)

    @cached_property
    def coding(self) -> Coding:
        """The coding of the nodes as columns of regressions."""
        widths = tuple(len(self.levels[name]) - 1 if name in self.levels else 1 for name in self.nodes)
        return Coding(self.nodes, widths, tuple(name in self.levels for name in self.nodes))

    @cached_property
    def dag(self) -> NDArray[np.bool_]:
        """The edges between the nodes, `[n_nodes, n_nodes]`."""
        edges = np.zeros((len(self.nodes),) * 2, np.bool_)
        for v, own in enumerate(self.parent_numbers):
            edges[list(own), v] = True
        return edges

    @property
    def linear(self) -> bool:
        """Whether all variables are numbers, so that the network is linear Gaussian."""
        return not self.levels

    @property
    def discrete(self) -> bool:
        """Whether this is a network of single rows in which all variables have tables."""
        return not self.lags and all(isinstance(one, Tabular) for one in self.local)

    @property
    def in_pgmpy(self) -> bool:
        """Whether pgmpy has networks of this kind."""
        return self.linear or self.discrete

    @property
    def kind(self) -> str:
        """The kind of network, in words for a report."""
        if self.lags and self.linear:
            return f"dynamic linear Gaussian network with {pluralize(self.lags, 'lag')}"
        if self.lags:
            return f"mixed network over time with {pluralize(self.lags, 'lag')}: regressions and probability tables"
        if self.linear:
            return "linear Gaussian network"
        return "discrete network" if self.discrete else MIXED

    @cached_property
    def tables(self) -> dict[str, FloatArray]:
        """The probabilities of the variables that have tables, `[levels of the first parent, ..., levels]` each."""
        each = zip(self.nodes, self.local, strict=True)
        return {name: local.table for name, local in each if isinstance(local, Tabular)}

    @property
    def free_parameters(self) -> int:
        """The number of free probabilities of the tables: one less than the number of levels in each distribution."""
        return sum(table.size - table.size // table.shape[-1] for table in self.tables.values())

    @cached_property
    def _regressions(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """The weights `[n_nodes, n_nodes]`, intercepts and error variances `[n_nodes]` of all nodes.

        Edges of networks with labels have the weight 1, because they may have several coefficients. Labels have the
        intercept 0 and the variance 1.
        """
        weights = self.dag.astype(np.float64)
        intercepts, variances = np.zeros(len(weights)), np.ones(len(weights))
        for v, (own, local) in enumerate(zip(self.parent_numbers, self.local, strict=True)):
            if isinstance(local, Linear):
                intercepts[v], variances[v] = local.intercept, local.variance
                if self.linear:
                    weights[list(own), v] = local.weights
        return weights, intercepts, variances

    @cached_property
    def structure(self) -> Structure:
        """The graph, with the weights of a linear network; the edges of other networks have weight 1."""
        d, weights = len(self.variables), self._regressions[0]
        lagged = weights[d:, :d].reshape(self.lags, d, d) if self.lags else None
        return Structure(self.variables, weights[:d, :d], lagged=lagged)

    @property
    def intercepts(self) -> FloatArray:
        """The intercepts of the regressions of numbers, `[d]`; 0 for labels."""
        return self._regressions[1][: len(self.variables)]

    @property
    def variances(self) -> FloatArray:
        """The error variances of the regressions of numbers, `[d]`; 1 for labels."""
        return self._regressions[2][: len(self.variables)]

    def given_parents(self, v: int, table: FloatArray) -> FloatArray:
        """The means `[n_rows]` of node v given its parents' values in `table` `[n_rows, n_nodes]`.

        For a label, the probabilities of its levels, `[n_rows, n_levels]`.
        """
        own = list(self.parent_numbers[v])
        return self.local[v].expected(table[:, own], self.coding.subset(own))

    def log_density(self, v: int, table: FloatArray) -> FloatArray:
        """The log density or log probability of node v given its parents in each row of `table`, `[n_rows]`."""
        return self.local[v].log_density(self.given_parents(v, table), table[:, v])

    def log_likelihood(self, table: FloatArray) -> FloatArray:
        """The log likelihood `[n_rows]` of each row of `table` `[n_rows, d]`: log densities plus log probabilities.

        Natural logarithms; labels are codes. Raises `ValueError` for a network over time, under which rows are not
        independent.
        """
        if self.lags:
            raise ValueError("rows of time series are not independent: a likelihood of single rows is not defined")
        total = np.zeros(len(table))
        for v in range(len(self.variables)):
            total += self.log_density(v, table)
        return total

    def sample(
        self, rows: int, rng: np.random.Generator, given: Mapping[str, float | str] | None = None
    ) -> tuple[FloatArray, FloatArray]:
        """Sampled rows `[rows, n_nodes]`, labels as codes, and the weight of each row, `[rows]`.

        `given` values are fixed, and the weight of a row is their likelihood given their parents (likelihood weighting;
        Fung, Chang 1990); all weights are 0 if they are impossible. Raises `BadInput` for an unknown name or label.
        """
        evidence = {self.index(name): self.code(name, value) for name, value in (given or {}).items()}
        table, logs = np.zeros((rows, len(self.nodes))), np.zeros(rows)
        for v, expected in self._draws(table, range(len(self.nodes)), rng, evidence):
            if v in evidence:
                logs += self.local[v].log_density(expected, table[:, v])
        highest = logs.max(initial=-np.inf)
        return table, np.exp(logs - highest) if np.isfinite(highest) else np.zeros(rows)

    def _draws(
        self, table: FloatArray, nodes: Container[int], rng: np.random.Generator, fixed: Mapping[int, float]
    ) -> Iterator[tuple[int, FloatArray]]:
        """Each of the `nodes` with what is expected of it, after its column of `table` was drawn, parents first.

        Nodes of `fixed` get these values. The columns of other nodes must be filled.
        """
        for v in topological_order(self.dag):
            if v in nodes:
                expected = self.given_parents(v, table)
                table[:, v] = fixed[v] if v in fixed else self.local[v].draw(expected, rng)
                yield v, expected

    def index(self, name: str) -> int:
        """The number of the node `name`; raises `BadInput` for an unknown name."""
        if name not in self.place:
            raise BadInput(f"there is no variable '{name}': available: {', '.join(self.nodes)}")
        return self.place[name]

    def code(self, name: str, value: float | str) -> float:
        """The entry of a table for a value of the node `name`: a number, or the code of its label.

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

    def intervened(self, do: Mapping[str, float | str]) -> "Network":
        """The network after an intervention on the nodes in `do`, that is, without arrows into these nodes.

        Raises `BadInput` for an unknown name or label.
        """
        local: dict[str, Distribution | FloatArray] = {}
        for name, value in do.items():
            self.index(name)
            code = self.code(name, value)
            is_label = name in self.levels
            local[name] = np.eye(len(self.levels[name]))[int(code)] if is_label else Linear(code, np.empty(0), 0.0)
        parents = {**self.parents, **dict.fromkeys(do, ())}
        return replace(self, parents=parents, distributions={**self.distributions, **local})

    def restricted(self, nodes: Sequence[int]) -> "Network":
        """The network of single rows over these `nodes`, given by number, which include all their parents."""
        names = [self.nodes[v] for v in nodes]
        levels = {name: self.levels[name] for name in names if name in self.levels}
        parents = {name: self.parents.get(name, ()) for name in names}
        return Network(tuple(names), levels, parents, {name: self.distributions[name] for name in names})

    def unrolled(self) -> "Network":
        """The network of single rows whose variables are the nodes of this one."""
        return self.restricted(range(len(self.nodes))) if self.lags else self

    def joint_normal(self) -> tuple[FloatArray, FloatArray]:
        """The mean `[n_nodes]` and the covariance `[n_nodes, n_nodes]` of a linear network."""
        weights, intercepts, variances = self._regressions
        mixing = np.linalg.inv(np.eye(len(weights)) - weights)
        return intercepts @ mixing, np.asarray(mixing.T @ (variances[:, None] * mixing))

    # Networks over time.

    @property
    def numbers(self) -> NDArray[np.bool_]:
        """Whether each variable is a number, `[d]`."""
        return np.array([name not in self.levels for name in self.variables])

    @property
    def means(self) -> FloatArray:
        """The marginal means of the numbers of a network over time, `[d]`: those of initial values; 0 for labels."""
        return self._regressions[1][len(self.variables) : 2 * len(self.variables)]

    @property
    def spreads(self) -> FloatArray:
        """The marginal variances of the numbers of a network over time, `[d]`; 1 for labels."""
        return self._regressions[2][len(self.variables) : 2 * len(self.variables)]

    @property
    def lagged(self) -> FloatArray:
        """The weights A of the lagged edges of a network over time, `[lags, d, d]`."""
        assert self.structure.lagged is not None
        return self.structure.lagged

    @property
    def spectral_radius(self) -> float | None:
        """The spectral radius of a linear network over time: series are stable below 1 and explosive above 1.

        None for other networks (`statistics/moments.py`).
        """
        return moments.spectral_radius(self.structure.weights, self.lagged) if self.lags and self.linear else None

    def reduced_form(self) -> tuple[FloatArray, FloatArray]:
        """The intercepts `[d]` and the lagged weights `[lags, d, d]` of a linear network's reduced form."""
        mixing = np.linalg.inv(np.eye(len(self.variables)) - self.structure.weights)
        return self.intercepts @ mixing, self.lagged @ mixing

    def expected(self, past: FloatArray, draws: int, rng: np.random.Generator) -> list[FloatArray]:
        """The mean `[n]`, or the probabilities `[n, levels]`, of each variable after each of the `past` `[n, lags·d]`.

        The latest row of the past is first. The results are averages over `draws` rows; they are exact for variables
        without parents at the same time.
        """
        d, repeated = len(self.variables), np.repeat(past, draws, axis=0)
        table = np.hstack([np.zeros((len(repeated), d)), repeated])
        found = dict(self._draws(table, range(d), rng, {}))
        return [found[v].reshape(len(past), draws, *found[v].shape[1:]).mean(axis=1) for v in range(d)]

    def forecast(
        self, past: Any, draws: int = 4000, rng: np.random.Generator | None = None
    ) -> FloatArray | dict[str, float | dict[str, float]]:
        """The row after `past`: its means `[d]`; with labels, the mean of each number and the probabilities of labels.

        Parameters
        ----------
        past
            The rows before, `[lags, d]`, the latest row last: an array of numbers and codes of levels in the order of
            `variables`, or a DataFrame, whose columns are found by name. If series were adjusted, the past has more
            rows, in the original numbers: trend and season are estimated from these rows, and are part of the forecast.
            Of numbers alone, more rows also help if cells are empty (NaN), because the forecast is the expectation
            given all filled cells.
        draws, rng
            With labels, the number of samples over which effects within the row are averaged, and their generator.

        Raises
        ------
        ValueError
            For a network of single rows, and if the past is too short, lacks a column, or has an unknown label. Also
            for an empty cell in the past of labels or of a model of differences.
        """
        if not self.lags:
            raise ValueError("a network of single rows has no forecast")
        past = past_rows(past, self.variables, self.levels)
        if len(past) < self.lags:
            raise ValueError(f"a forecast needs a past of {self.lags} rows or more, not {len(past)}")
        if self.linear:
            return self._linear_forecast(past)
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

    def _linear_forecast(self, past: FloatArray) -> FloatArray:
        if self.adjustment.difference and np.isnan(past).any():
            raise ValueError("a forecast of differences of series needs a past without empty cells")
        intercepts, lagged = self.reduced_form()

        def predict(rows: FloatArray) -> FloatArray:
            if np.isnan(rows).any():
                mixing = np.linalg.inv(np.eye(len(intercepts)) - self.structure.weights)
                errors = mixing.T @ np.diag(self.variances) @ mixing
                rows = _expected_latest_rows(rows, intercepts, lagged, errors, self.means, self.spreads)
            latest = rows[::-1][: len(lagged)]
            return np.asarray(intercepts + np.einsum("ki,kij->j", latest, lagged))

        return self.adjustment.forecast(past, predict) if self.adjustment else predict(past)

    def series(self, rows: int, rng: np.random.Generator, do: Mapping[str, float | str]) -> FloatArray:
        """A drawn series `[rows, d]` of a network over time, in which the variables in `do` always have these values.

        The series may explode. Raises `BadInput` for an unknown name or label.
        """
        d = len(self.variables)
        if self.linear:
            changed = self.intervened(do)
            weights, sd = changed.structure.weights, np.sqrt(changed.variances)
            mixing = np.linalg.inv(np.eye(d) - weights)
            table = np.tile(self.means, (rows + self.lags, 1))
            for t in range(self.lags, len(table)):
                past = table[t - self.lags : t][::-1]
                influence = np.einsum("ki,kij->j", past, changed.lagged)
                table[t] = (changed.intercepts + influence + sd * rng.standard_normal(d)) @ mixing
            return table[self.lags :]
        fixed = {self.index(name): self.code(name, value) for name, value in do.items()}
        nodes, _ = self.sample(1, rng)
        found = np.empty((rows, d))
        for t in range(rows):
            if t:
                nodes[:, d:] = nodes[:, :-d].copy()
            for v, _ in self._draws(nodes, range(d), rng, fixed):
                found[t, v] = nodes[0, v]
        return found


MIXED = "mixed network: linear and logistic regressions, and probability tables"


def linear_network(
    structure: Structure,
    intercepts: FloatArray,
    variances: FloatArray,
    means: FloatArray | None = None,
    spreads: FloatArray | None = None,
    adjustment: Adjustment = NO_ADJUSTMENT,
) -> Network:
    """The linear Gaussian network with the weights of `structure`, whose nonzero weights are the edges.

    Parameters
    ----------
    structure
        The weights W of a DAG; for a network over time, also the A_k as `lagged`.
    intercepts, variances
        The intercept and the error variance of each variable, `[d]`.
    means, spreads
        For a network over time, each variable's marginal mean and variance, `[d]`.
    adjustment
        The components that the silos subtracted from the series before the fit.

    Raises
    ------
    ValueError
        For lags without means and spreads, or the other way round (a programming error).
    """
    if (means is None or spreads is None) == bool(structure.lags):
        raise ValueError("means and spreads belong to a structure with lags, and to no other")
    nodes, weights = unrolled_names(structure.variables, structure.lags), structure.weights
    if structure.lagged is not None:
        weights = unrolled_weights(structure.weights, structure.lagged)
        assert means is not None
        assert spreads is not None
        intercepts = np.concatenate([intercepts, np.tile(means, structure.lags)])
        variances = np.concatenate([variances, np.tile(spreads, structure.lags)])
    parents = [np.flatnonzero(column) for column in weights.T]
    return Network(
        structure.variables,
        {},
        {name: tuple(nodes[u] for u in own) for name, own in zip(nodes, parents, strict=True)},
        {
            name: Linear(float(intercepts[v]), weights[own, v], float(variances[v]))
            for v, (name, own) in enumerate(zip(nodes, parents, strict=True))
        },
        structure.lags,
        adjustment,
    )


def past_rows(past: Any, variables: Sequence[str], levels: Mapping[str, Sequence[str]] | None = None) -> FloatArray:
    """`past` as an array `[n_rows, d]` with its columns in the order of `variables`.

    The columns of a DataFrame are found by name. Its other columns, such as times, are left out, and its labels become
    codes of `levels`. Raises `ValueError` for a missing column, an unknown label, and an array of another width.
    """
    names = getattr(past, "columns", None)
    if names is None:
        found = np.asarray(past, np.float64)
        if found.ndim != 2 or found.shape[1] != len(variables):
            raise ValueError(f"a forecast needs rows of {', '.join(variables)}, not an array of shape {found.shape}")
        return found
    missing = [name for name in variables if name not in names]
    if missing:
        raise ValueError(f"a forecast needs the column {missing[0]!r}, which its past does not have")
    columns = []
    for name in variables:
        codes = {label: code for code, label in enumerate((levels or {}).get(name, ()))}
        unknown = [cell for cell in past[name] if isinstance(cell, str) and cell not in codes]
        if unknown:
            raise ValueError(f"column {name!r} of the past of a forecast: {unknown[0]!r} is not a number or a level")
        columns.append(
            [codes[cell] if isinstance(cell, str) else np.nan if cell is None else cell for cell in past[name]]
        )
    return np.array(columns, np.float64).T


def _expected_latest_rows(
    past: FloatArray,
    intercepts: FloatArray,
    lagged: FloatArray,
    errors: FloatArray,
    means: FloatArray,
    spread: FloatArray,
) -> FloatArray:
    """The expected last L rows `[L, d]` given all nonempty cells of `past` `[n_rows, d]`; empty cells are NaN.

    This is the Kalman filter (Durbin & Koopman 2012, §4.3, §4.10). Its state has the latest L rows, so a later row also
    improves the expectations of empty cells in earlier rows.

    The model is x_t = `intercepts` + Σ_k x_{t−k} `lagged`[k] + e_t, e_t ~ N(0, `errors`). The first L rows have the
    `means` `[d]` and the stationary covariance of the model. If the model is not stationary, the cells of these rows
    are independent with variance `spread` `[d]`.
    """
    lags, d = lagged.shape[:2]
    step: FloatArray = np.eye(lags * d, k=d)
    step[:, :d] = lagged.reshape(lags * d, d)
    from scipy.linalg import block_diag, solve_discrete_lyapunov  # imported late: most models are not dynamic

    noise: FloatArray = block_diag(errors, np.zeros(((lags - 1) * d,) * 2))
    stationary = np.abs(np.linalg.eigvals(step)).max() < 1
    prior = solve_discrete_lyapunov(step.T, noise) if stationary else np.diag(np.tile(spread, lags))
    mean, covariance = conditional_normal(
        np.tile(means, lags), np.asarray(prior, np.float64), past[:lags][::-1].ravel()
    )
    for row in past[lags:]:
        mean, covariance = mean @ step, step.T @ covariance @ step + noise
        mean[:d] += intercepts
        mean, covariance = conditional_normal(mean, covariance, np.concatenate([row, np.full((lags - 1) * d, np.nan)]))
    return np.asarray(mean.reshape(lags, d)[::-1])


def conditional_normal(mean: FloatArray, covariance: FloatArray, cells: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Mean and covariance of a normal vector given its `cells` that are not NaN.

    The covariance may be singular: a variable that others determine, or that was set, has no variance of its own.
    """
    known: NDArray[np.intp] = np.flatnonzero(~np.isnan(cells))
    gain = np.linalg.pinv(covariance[np.ix_(known, known)], hermitian=True) @ covariance[known]
    return mean + (cells[known] - mean[known]) @ gain, covariance - covariance[:, known] @ gain


def unrolled_weights(within: NDArray[np.float64], lagged: NDArray[np.float64]) -> NDArray[np.float64]:
    """The weights of all edges into time t, `[(lags + 1)·d, (lags + 1)·d]`; no edge leads to an earlier time."""
    lags, d, _ = lagged.shape
    weights = np.zeros(((lags + 1) * d,) * 2)
    weights[:d, :d], weights[d:, :d] = within, lagged.reshape(lags * d, d)
    return weights
