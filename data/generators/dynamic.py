"""Synthetic time series: linear structural vector autoregressions x_t = x_t W + Σ x_{t−i} A_i + u on random graphs.

Source: Chen, Ma & Yue 2025, §7.2. In addition, silos may share the whole model, only its graph, or nothing.

With labels (our addition), some variables are states with two or three levels, such as alarms and switches. A state is
drawn by an ordered logit model, whose linear predictor is the sum of effects x_t W + Σ x_{t−i} A_i. Each level of a
state has a score (`SCORES`), and the effect of the state on other variables is linear in this score.

The random streams of a seed: (0, ...) a model, (1, silo, part) rows, (2, silo) its weights, (3,) states.
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Annotated, Any, ClassVar

import numpy as np
from annotated_types import Ge
from numpy.typing import NDArray

from fedbnsl.algorithms.core.schema import FloatArray
from fedbnsl.algorithms.core.settings import Count, CountOrNone, Factor, NonNegative, Positive, Seed, Settings
from fedbnsl.algorithms.errors import BadInput
from fedbnsl.algorithms.graphs.dag import topological_order
from fedbnsl.algorithms.graphs.structure import Structure
from fedbnsl.algorithms.statistics.moments import spectral_radius

from ..defaults import DECAY, INTRA_DEGREE, LAGGED_DEGREE, NOISE, Noise
from ..federated import FederatedData, silo_names, time_series
from .random_graphs import variable_names
from .sampling import draw_noise, numbered_stream

WEIGHTS = (0.3, 0.5)
"""range of the absolute weights within a time step and at lag 1, drawn uniformly (§7.2)"""
MAX_SPECTRAL_RADIUS = 0.95
"""upper bound on the spectral radius of a model"""
MAX_TRIES = 1000
"""maximum number of models that are drawn to find a stable one"""
BURN_IN = 300
"""number of steps of a series before its first row, in which the effect of its initial state fades to 0.95³⁰⁰"""


@dataclass(frozen=True)
class DynamicSettings(Settings):
    """The settings of `dynamic`; raises `BadInput` naming an invalid value.

    `rows` is the number of windows of a silo: each of its `series` has `lags` additional rows. `degree` is the mean
    number of neighbours within a time step, and `lagged_degree` is the mean number of children at each lag. Weights at
    lag i are `decay`^(i − 1) times smaller than at lag 1. `heterogeneity` is the standard deviation of a silo's weights
    around the shared weights.
    """

    called: ClassVar[str] = ""
    variables: Annotated[int, Ge(2)]
    silos: Count
    rows: Annotated[int, Ge(2)]
    seed: Seed
    lags: Count = 1
    degree: NonNegative = INTRA_DEGREE
    lagged_degree: Positive = LAGGED_DEGREE
    decay: Factor = DECAY
    heterogeneity: NonNegative = 0.0
    own_structures: bool = False
    noise: Noise = NOISE
    series: Count = 1
    labels: CountOrNone = 0
    """number of variables that are states, drawn at random"""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.series > self.rows:
            raise BadInput(f"series: {self.series} is more than the {self.rows} rows of a silo")
        if self.lagged_degree > self.variables:
            raise BadInput(f"lagged_degree: {self.lagged_degree} is more than the {self.variables} variables")
        if self.heterogeneity and self.own_structures:
            raise BadInput("heterogeneity: must be 0 with own structures, because silos then share no weights")
        if self.labels > self.variables:
            raise BadInput(f"labels: {self.labels} is more than the {self.variables} variables")


def dynamic(variables: int, silos: int, rows: int, seed: int, **options: Any) -> FederatedData:
    """Draw silos of time series with `rows` windows each from stable random models (`DynamicSettings`).

    The model depends only on the seed and on its own settings, and each silo has its own random stream. The truth has
    the shared weights or, if silos have their own graphs, the mean of the silos' weights on the union of the graphs,
    which may have cycles. `silo_weights[silo]`, [lags + 1, d, d], are W and A of a silo that has its own model. Raises
    `BadInput` as `DynamicSettings` does, and if no stable model is found.
    """
    plan = DynamicSettings(variables, silos, rows, seed, **options)
    names = silo_names(silos)
    own: dict[str, FloatArray] = {}
    shared: FloatArray
    if plan.own_structures:
        own = {silo: _model(plan, numbered_stream(seed, 0, number)) for number, silo in enumerate(names)}
        shared = np.mean(list(own.values()), axis=0)
    else:
        shared = _model(plan, numbered_stream(seed, 0))
    if plan.heterogeneity:
        own = {silo: _silo_model(shared, plan, numbered_stream(seed, 2, number)) for number, silo in enumerate(names)}
    lengths = tuple(rows // plan.series + (part < rows % plan.series) + plan.lags for part in range(plan.series))
    tables = {}
    columns = variable_names(variables)
    widths = state_widths(plan)
    for number, silo in enumerate(names):
        parts = (numbered_stream(seed, 1, number, part) for part in range(plan.series))
        model = own[silo] if own else shared
        series = [
            labelled_svar(model, widths, length, rng, plan.noise)
            if plan.labels
            else svar(model, length, rng, plan.noise)
            for length, rng in zip(lengths, parts, strict=True)
        ]
        tables[silo] = np.concatenate(series)
    levels = {name: LEVELS[width] for name, width in zip(columns, widths, strict=True) if width > 1}
    parameters = {name: value for name, value in asdict(plan).items() if name != "seed"}
    about = {"kind": "time-series", "generator": "dynamic", "source": "Chen, Ma & Yue 2025, §7.2"}
    return FederatedData(
        replace(time_series(tables, dict.fromkeys(names, lengths), columns), levels=levels),
        tables,
        Structure(columns, shared[0], lagged=shared[1:]),
        own,
        about | {"parameters": parameters, "seed": seed},
    )


def svar(model: FloatArray, rows: int, rng: np.random.Generator, noise: Noise = NOISE) -> FloatArray:
    """Draw `rows` consecutive times of x_t = (Σ x_{t−i} A_i + u)(I − W)⁻¹, [n_rows, d], after a burn-in.

    `model` [lags + 1, d, d] is W, then A_1, A_2, ...; `noise` has scale 1 and mean 0. The first rows do not depend on
    the number of rows.
    """
    lags, d = len(model) - 1, model.shape[1]
    total = np.linalg.inv(np.eye(d) - model[0])
    reduced = (model[1:] @ total).reshape(lags * d, d)
    shocks = draw_noise(noise, (BURN_IN + rows, d), rng) @ total
    x = np.zeros((lags + len(shocks), d))
    for t, shock in enumerate(shocks, start=lags):
        x[t] = x[t - lags : t][::-1].ravel() @ reduced + shock
    return np.ascontiguousarray(x[-rows:])


LEVELS = {2: ("off", "on"), 3: ("low", "medium", "high")}
"""the levels of states"""
SCORES = {2: np.array([-1.0, 1.0]), 3: np.array([-1.2, 0.0, 1.2])}
"""the score of each level: its effect is the score times a weight"""
STEEPNESS = 2.5
"""log odds of a state for an effect of 1"""


def state_widths(plan: DynamicSettings) -> NDArray[np.int64]:
    """The number of levels of each variable, `[d]`: 1 for numbers, 2 and 3 in turn for states."""
    widths = np.ones(plan.variables, np.int64)
    chosen = numbered_stream(plan.seed, 3).permutation(plan.variables)[: plan.labels]
    widths[chosen] = 2 + np.arange(plan.labels) % 2
    return widths


def labelled_svar(
    model: FloatArray, widths: NDArray[np.int64], rows: int, rng: np.random.Generator, noise: Noise = NOISE
) -> FloatArray:
    """Draw `rows` consecutive times of `model` `[lags + 1, d, d]` with states of `widths` levels, `[n_rows, d]`.

    Each variable is drawn given the earlier rows and its parents in the same row. A state is drawn by an ordered logit
    model; its values are codes of levels.
    """
    lags, d = len(model) - 1, model.shape[1]
    order = topological_order(model[0] != 0)
    errors = draw_noise(noise, (BURN_IN + rows, d), rng)
    logistic = rng.logistic(size=(BURN_IN + rows, d)) / STEEPNESS
    effects, table = np.zeros((lags + len(errors), d)), np.zeros((lags + len(errors), d))
    for t in range(lags, len(effects)):
        past = np.einsum("ki,kij->j", effects[t - lags : t][::-1], model[1:])
        for j in order:
            total = past[j] + effects[t] @ model[0][:, j]
            if widths[j] == 1:
                effects[t, j] = table[t, j] = total + errors[t - lags, j]
                continue
            cuts = np.zeros(1) if widths[j] == 2 else np.array([-0.4, 0.4])
            table[t, j] = (total + logistic[t - lags, j] > cuts).sum()
            effects[t, j] = SCORES[int(widths[j])][int(table[t, j])]
    return np.ascontiguousarray(table[-rows:])


def _model(plan: DynamicSettings, rng: np.random.Generator) -> FloatArray:
    """Draw a stable model [lags + 1, d, d] on random graphs, with an edge at the last lag."""
    d = plan.variables

    def draw() -> FloatArray:
        lower = np.tril(rng.random((d, d)) < plan.degree / (d - 1), k=-1)
        order = rng.permutation(d)
        later = rng.random((plan.lags, d, d)) < plan.lagged_degree / d
        edges = np.concatenate([lower[np.ix_(order, order)][None], later])
        sizes = rng.uniform(*WEIGHTS, edges.shape) * rng.choice([-1.0, 1.0], edges.shape)
        sizes[1:] /= plan.decay ** np.arange(plan.lags)[:, None, None]
        return np.where(edges, sizes, 0.0)

    return _stable_model(draw, "fewer lagged edges or a larger decay")


def _silo_model(shared: FloatArray, plan: DynamicSettings, rng: np.random.Generator) -> FloatArray:
    """Draw a silo's weights around the shared weights, on the same edges, until the silo's model is stable."""

    def draw() -> FloatArray:
        return np.where(shared != 0, shared + rng.normal(0.0, plan.heterogeneity, shared.shape), 0.0)

    return _stable_model(draw, "a smaller heterogeneity")


def _stable_model(draw: Callable[[], FloatArray], remedy: str) -> FloatArray:
    """The first drawn model that is stable and has an edge at its last lag; raises `BadInput` if there is none."""
    for _ in range(MAX_TRIES):
        model = draw()
        if model[-1].any() and spectral_radius(model[0], model[1:]) < MAX_SPECTRAL_RADIUS:
            return model
    raise BadInput(f"dynamic: none of {MAX_TRIES} random models is stable: use {remedy}")
