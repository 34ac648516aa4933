"""Bayesian networks with their parameters: discrete networks, linear Gaussian networks, and dynamic linear networks.

Each kind of network is a class with the interface of `BayesianNetwork`: the log likelihood of rows, its JSON, and its
drift from an earlier network. Networks of mixed variables are in `mixed_network.py`.

A dynamic network is x_t = c + x_t W + Σ_k x_{t−k} A_k + u_t. Solved for x_t it has the reduced form
x_t = (c + Σ_k x_{t−k} A_k + u_t)(I − W)⁻¹ (Lütkepohl 2005, §9), which forecasts the next row.

Drift (`drift_of`) is the Kullback-Leibler divergence of the later joint distribution from the earlier one (Kullback,
Leibler 1951), in nats per row. It is 0 for equal distributions, even if the directions of edges differ. Both
distributions factorise over the variables. So drift is a sum of one term per variable, E[log p_after(x_v | parents) -
log p_before(x_v | parents)] under the later network. The terms are exact for linear Gaussian networks. For discrete
networks, they are means over rows sampled from the later network (`divergence_from`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from ..core.adjustment import NO_ADJUSTMENT, Adjustment
from ..core.schema import FloatArray
from ..errors import BadInput
from ..graphs.dag import topological_order
from ..graphs.structure import Structure, unrolled_names
from ..statistics import moments

DRIFT_ROWS, DRIFT_SEED = 20_000, 0
"""number and seed of the sampled rows that estimate the drift between discrete networks"""
MIN_VARIANCE = 1e-12
"""lower bound on an error variance in comparisons of networks, in units of the variable's variance"""
NOT_COMPARABLE = "parameter drift is defined between two linear Gaussian networks or two discrete ones"


class BayesianNetwork:
    """The interface of all Bayesian networks with parameters.

    The default of a property is for kinds of networks to which the property does not apply.
    """

    file_name: ClassVar[str] = "model.json"
    """name of the network's file in the output folder of a run"""
    in_pgmpy: ClassVar[bool] = True
    """whether pgmpy has networks of this kind"""

    if TYPE_CHECKING:

        @property
        def structure(self) -> Structure:
            """The graph; a field in some kinds of networks."""

        @property
        def variables(self) -> tuple[str, ...]:
            """The names of the variables; a field in some kinds of networks."""

    @property
    def kind(self) -> str:
        """The kind of network, in words for a report."""
        raise NotImplementedError

    @property
    def free_parameters(self) -> int | None:
        """The number of free parameters of a network of tables; None for other kinds of networks."""
        return None

    @property
    def spectral_radius(self) -> float | None:
        """The spectral radius of a network over time; None for other kinds of networks."""
        return None

    def log_likelihood(self, table: FloatArray) -> FloatArray:
        """The log likelihood `[n_rows]` of each row of `table` `[n_rows, d]`, natural logarithms.

        Columns are in the order of the network's variables, labels as codes. Raises `ValueError` for a network over
        time, under which rows are not independent.
        """
        raise NotImplementedError

    def as_json(self) -> dict[str, Any]:
        """The network as JSON for `network_json.network_from_json`; each class has its own format."""
        raise NotImplementedError

    def divergence_from(self, before: Self) -> FloatArray:
        """The terms of the divergence of this network from an earlier one, `[d]`; see `drift_of`.

        Raises `BadInput` with the reason if the two cannot be compared.
        """
        raise BadInput(NOT_COMPARABLE)

    def _require_same_variables(self, before: Self) -> None:
        if set(before.variables) != set(self.variables):
            raise BadInput("the variables are not the same")


@dataclass(frozen=True, eq=False)
class DiscreteNetwork(BayesianNetwork):
    """P(x) = Π_v P(x_v | parents of v).

    `tables[v]` is [n_levels of the first parent, ..., of the last parent, n_levels of v]: its last axis sums to 1, up
    to the rounding of published tables. `parents[v]` are in the order of those axes.
    """

    variables: tuple[str, ...]
    levels: dict[str, tuple[str, ...]]
    parents: dict[str, tuple[str, ...]]
    tables: dict[str, FloatArray]

    file_name = "model.bif"
    kind = "discrete network"

    def __post_init__(self) -> None:
        """Raise `ValueError` for tables that do not fit levels and parents (a programming error)."""
        for name in self.variables:
            shape = tuple(len(self.levels[one]) for one in (*self.parents[name], name))
            if self.tables[name].shape != shape:
                raise ValueError(f"{name}: a table of {self.tables[name].shape}, not {shape}")

    @property
    def structure(self) -> Structure:
        """The DAG with weights 1."""
        place = {name: number for number, name in enumerate(self.variables)}
        weights = np.zeros((len(place), len(place)))
        for name in self.variables:
            weights[[place[parent] for parent in self.parents[name]], place[name]] = 1.0
        return Structure(self.variables, weights)

    @property
    def free_parameters(self) -> int:
        """The number of free probabilities: one less than the number of levels in each distribution."""
        return sum(table.size - table.size // table.shape[-1] for table in self.tables.values())

    def log_likelihood(self, table: FloatArray) -> FloatArray:
        """The log probability `[n_rows]` of each row of codes."""
        codes = table.astype(np.int64)
        place = {name: number for number, name in enumerate(self.variables)}
        total = np.zeros(len(codes))
        for name in self.variables:
            columns = [place[one] for one in (*self.parents[name], name)]
            with np.errstate(divide="ignore"):  # a probability of 0 is a likelihood of 0
                total += np.log(self.tables[name])[tuple(codes[:, columns].T)]
        return total

    def as_json(self) -> dict[str, Any]:
        """`nodes`, and the `levels`, `parents` and `tables` by variable, as in this class."""
        return {
            "nodes": list(self.variables),
            "levels": {name: list(self.levels[name]) for name in self.variables},
            "parents": {name: list(self.parents[name]) for name in self.variables},
            "tables": {name: self.tables[name].tolist() for name in self.variables},
        }

    def divergence_from(self, before: Self) -> FloatArray:
        """The terms `[d]`, as means over rows sampled from this network."""
        self._require_same_variables(before)
        for name in self.variables:
            if set(before.levels[name]) != set(self.levels[name]):
                raise BadInput(f"the levels of {name} differ")
        rows = self.sample_codes(DRIFT_ROWS, np.random.default_rng(DRIFT_SEED))
        # The earlier network may list variables and levels in another order.
        codes = {
            name: np.array([before.levels[name].index(level) for level in self.levels[name]])[rows[:, v]]
            for v, name in enumerate(self.variables)
        }
        own = {name: rows[:, v] for v, name in enumerate(self.variables)}
        return np.array([np.mean(self._logs(name, own) - before._logs(name, codes)) for name in self.variables])

    def sample_codes(self, rows: int, rng: np.random.Generator) -> NDArray[np.int64]:
        """Sampled rows as codes of levels, `[rows, n_variables]`."""
        place = {name: number for number, name in enumerate(self.variables)}
        codes = np.zeros((rows, len(place)), np.int64)
        for v in topological_order(self.structure.adjacency):
            table = self.tables[self.variables[v]]
            parent_codes = tuple(codes[:, place[parent]] for parent in self.parents[self.variables[v]])
            cumulative = np.cumsum(np.broadcast_to(table[parent_codes], (rows, table.shape[-1])), axis=1)
            codes[:, v] = (rng.random(rows)[:, None] * cumulative[:, -1:] > cumulative[:, :-1]).sum(axis=1)
        return codes

    def _logs(self, name: str, codes: dict[str, NDArray[np.int64]]) -> FloatArray:
        """Log P(x_v | its parents) of the variable `name` in rows of `codes`, by variable; `[n_rows]`."""
        index = tuple(codes[one] for one in (*self.parents[name], name))
        return np.asarray(np.log(np.maximum(self.tables[name][index], np.finfo(float).tiny)))


@dataclass(frozen=True, eq=False)
class GaussianNetwork(BayesianNetwork):
    """A linear Gaussian network: x_j = intercept_j + Σ_i W_ij x_i + N(0, variance_j), where W are the DAG's weights."""

    structure: Structure
    intercepts: FloatArray
    variances: FloatArray

    kind = "linear Gaussian network"

    @property
    def variables(self) -> tuple[str, ...]:
        """The names of the variables."""
        return self.structure.variables

    def log_likelihood(self, table: FloatArray) -> FloatArray:
        """The log density `[n_rows]` of each row."""
        residuals = table - self.intercepts - table @ self.structure.weights
        return np.asarray(normal_log_density(residuals, self.variances).sum(axis=1))

    def as_json(self) -> dict[str, Any]:
        """The network in the JSON format of pgmpy's `LinearGaussianBayesianNetwork.save`."""
        names, weights = self.structure.variables, self.structure.weights
        cpds: dict[str, Any] = {}
        for j, name in enumerate(names):
            parents = [int(i) for i in np.flatnonzero(weights[:, j])]
            intercept: dict[str, list[float]] = {"(Intercept)": [float(self.intercepts[j])]}
            cpds[name] = {
                "coefficients": {**intercept, **{names[i]: [float(weights[i, j])] for i in parents}},
                "variance": [float(self.variances[j])],
                "parents": [names[i] for i in parents],
            }
        arcs = [[names[i], names[j]] for i, j in np.argwhere(weights != 0)]
        return {"nodes": list(names), "arcs": arcs, "cpds": cpds}

    def divergence_from(self, before: Self) -> FloatArray:
        """The terms `[d]`, exactly."""
        self._require_same_variables(before)
        names = self.structure.variables
        positions = [before.structure.variables.index(name) for name in names]
        earlier, later = before.structure.weights[np.ix_(positions, positions)], self.structure.weights
        mixing = np.linalg.inv(np.eye(len(names)) - later)
        mean, covariance = self.intercepts @ mixing, mixing.T @ (self.variances[:, None] * mixing)
        floor = np.maximum(MIN_VARIANCE * np.diag(covariance), np.finfo(float).tiny)
        old, new = np.maximum(before.variances[positions], floor), np.maximum(self.variances, floor)
        residual_map = np.eye(len(names)) - earlier
        errors = (mean @ residual_map - before.intercepts[positions]) ** 2 + np.einsum(
            "iv,ij,jv->v", residual_map, covariance, residual_map
        )
        return np.asarray(0.5 * (np.log(old / new) + errors / old - 1.0))


@dataclass(frozen=True, eq=False)
class DynamicGaussianNetwork(BayesianNetwork):
    """A linear Gaussian network over time: x_t = intercepts + x_t W + Σ_k x_{t−k} A_k + u_t, u_tj ~ N(0, variance_j).

    `structure` has W as `weights` and the A_k as `lagged` (Chen, Ma & Yue, §2). `means` and `spreads` `[d]` are each
    variable's marginal mean and variance: the distribution of the initial values.
    """

    structure: Structure
    intercepts: FloatArray
    variances: FloatArray
    means: FloatArray
    spreads: FloatArray
    adjustment: Adjustment = NO_ADJUSTMENT
    """the components that the silos subtracted from the series before the fit"""

    def __post_init__(self) -> None:
        """Raise `ValueError` for a structure without lags (a programming error)."""
        if not self.structure.lags:
            raise ValueError("a dynamic network needs a structure with lags")

    @property
    def variables(self) -> tuple[str, ...]:
        """The names of the variables."""
        return self.structure.variables

    @property
    def kind(self) -> str:
        """The kind of network with its number of lags."""
        steps = self.structure.lags
        return f"dynamic linear Gaussian network that looks back over {steps} step{'s' * (steps != 1)}"

    @property
    def lagged(self) -> FloatArray:
        """The weights A of the lagged edges, `[lags, d, d]`."""
        assert self.structure.lagged is not None
        return self.structure.lagged

    @property
    def spectral_radius(self) -> float:
        """The spectral radius: series are stable below 1 and explosive above 1 (`statistics/moments.py`)."""
        return moments.spectral_radius(self.structure.weights, self.lagged)

    def log_likelihood(self, table: FloatArray) -> FloatArray:
        """Raise `ValueError`: a likelihood of single rows is not defined."""
        raise ValueError("rows of time series are not independent: a likelihood of single rows is not defined")

    def as_json(self) -> dict[str, Any]:
        """The JSON of the Gaussian network over several times (`unrolled`), with `variables` and `lags`."""
        over_time = {"variables": list(self.structure.variables), "lags": self.structure.lags}
        adjusted = {"adjustment": asdict(self.adjustment)} if self.adjustment else {}
        return {**self.unrolled().as_json(), **over_time, **adjusted}

    def reduced_form(self) -> tuple[FloatArray, FloatArray]:
        """The intercepts `[d]` and the lagged weights `[lags, d, d]` of the reduced form."""
        mixing = np.linalg.inv(np.eye(len(self.intercepts)) - self.structure.weights)
        return self.intercepts @ mixing, self.lagged @ mixing

    def forecast(self, past: Any) -> FloatArray:
        """The mean of the row after `past`, whose last row is the latest: `[d]`.

        `past` is `[lags, d]`, an array in the order of `variables` or a DataFrame, whose columns are found by name.
        More rows help if cells are empty (NaN), because the forecast is the expectation given all filled cells. If
        series were adjusted, `past` has more rows, in the original numbers: trend and season are estimated from these
        rows, and are part of the forecast. Raises `ValueError` if `past` is too short or lacks a column, and for an
        empty cell in the past of a model of differences.
        """
        past = past_rows(past, self.variables)
        intercepts, lagged = self.reduced_form()
        if len(past) < len(lagged):
            raise ValueError(f"a forecast needs a past of {len(lagged)} rows or more, not {len(past)}")
        if self.adjustment.difference and np.isnan(past).any():
            raise ValueError("a forecast of differences of series needs a past without empty cells")

        def predict(rows: FloatArray) -> FloatArray:
            if np.isnan(rows).any():
                mixing = np.linalg.inv(np.eye(len(intercepts)) - self.structure.weights)
                errors = mixing.T @ np.diag(self.variances) @ mixing
                rows = _expected_latest_rows(rows, intercepts, lagged, errors, self.means, self.spreads)
            latest = rows[::-1][: len(lagged)]
            return np.asarray(intercepts + np.einsum("ki,kij->j", latest, lagged))

        return self.adjustment.forecast(past, predict) if self.adjustment else predict(past)

    def unrolled(self) -> GaussianNetwork:
        """The network over the times t − lags, ..., t as a plain Gaussian network, for files and for pgmpy.

        It has the variables at time t under their own names, then the variables at earlier times: "x", ..., "x[t-1]",
        ..., "x[t-2]". Variables at earlier times have no parents; they have the means and variances of the data, but
        not their dependence. So the network is valid only conditionally on a given past.
        """
        lags = self.structure.lags
        names = unrolled_names(self.structure.variables, lags)
        return GaussianNetwork(
            Structure(names, unrolled_weights(self.structure.weights, self.lagged)),
            np.concatenate([self.intercepts, np.tile(self.means, lags)]),
            np.concatenate([self.variances, np.tile(self.spreads, lags)]),
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
    mean, covariance = _given(np.tile(means, lags), np.asarray(prior, np.float64), past[:lags][::-1].ravel())
    for row in past[lags:]:
        mean, covariance = mean @ step, step.T @ covariance @ step + noise
        mean[:d] += intercepts
        mean, covariance = _given(mean, covariance, np.concatenate([row, np.full((lags - 1) * d, np.nan)]))
    return np.asarray(mean.reshape(lags, d)[::-1])


def _given(mean: FloatArray, covariance: FloatArray, cells: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Mean and covariance of a Gaussian vector given its `cells` that are not NaN."""
    known: NDArray[np.intp] = np.flatnonzero(~np.isnan(cells))
    gain = np.linalg.pinv(covariance[np.ix_(known, known)], hermitian=True) @ covariance[known]
    return mean + (cells[known] - mean[known]) @ gain, covariance - covariance[:, known] @ gain


def normal_log_density(residuals: FloatArray, variances: FloatArray | float) -> FloatArray:
    """The log density of each of the `residuals`; a variance of 0 is replaced by a tiny variance."""
    floored = np.maximum(variances, np.finfo(np.float64).tiny)
    return np.asarray(-0.5 * (np.log(2 * np.pi * floored) + residuals**2 / floored))


def unrolled_weights(within: NDArray[np.float64], lagged: NDArray[np.float64]) -> NDArray[np.float64]:
    """The weights of all edges into time t, `[(lags + 1)·d, (lags + 1)·d]`; no edge leads to an earlier time."""
    lags, d, _ = lagged.shape
    weights = np.zeros(((lags + 1) * d,) * 2)
    weights[:d, :d], weights[d:, :d] = within, lagged.reshape(lags * d, d)
    return weights


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


def drift_of(before: BayesianNetwork, after: BayesianNetwork) -> Drift:
    """The drift of the parameters from `before` to `after`; terms below `NO_DRIFT` are rounding errors and become 0.

    Raises `BadInput` with the reason if the two networks cannot be compared.
    """
    if type(before) is not type(after):
        raise BadInput(NOT_COMPARABLE)
    terms = after.divergence_from(before)
    return Drift(dict(zip(after.variables, np.where(np.abs(terms) < NO_DRIFT, 0.0, terms).tolist(), strict=True)))
