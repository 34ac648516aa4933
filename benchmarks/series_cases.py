"""Time series from one model, in silos with different lengths and means; columns are in random order.

Every variable has an effect on itself one step later. The other lagged effects and the effects within a step are drawn
at random.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fedbnsl.algorithms.core.schema import FloatArray
from fedbnsl.algorithms.graphs.structure import Structure
from fedbnsl.algorithms.statistics.moments import spectral_radius
from fedbnsl.data.defaults import Noise
from fedbnsl.data.federated import FederatedData, silo_names, time_series
from fedbnsl.data.generators.dynamic import svar
from fedbnsl.data.generators.random_graphs import variable_names
from fedbnsl.data.generators.sampling import draw_noise

MAX_RADIUS = 0.98
PERIOD = 24
CHANGE = 0.3


@dataclass(frozen=True)
class Case:
    """The settings of a data set; `rows` are those of all silos together, of which no silo has the same number."""

    variables: int = 10
    rows: int = 1000
    silos: int = 5
    within: int = 9
    """edges within a step"""
    across: int = 20
    """edges across one step, those from a variable to itself included"""
    weights: tuple[float, float] = (0.3, 0.5)
    own_past: float = 0.0
    """effect of each variable on itself; 0: drawn like the others"""
    noise: Noise = "gaussian"
    unequal: bool = False
    """error variances from .3 to 3 instead of 1"""
    columns: str = "as drawn"
    """as drawn, standardised, or in units from 1 to 1000"""
    slopes: float = 0.0
    """standard deviation of the silos' weights around the common ones"""
    changing: int = 0
    """number of weights that become larger or smaller by `CHANGE` half way through every series"""
    levels: float = 2.0
    """standard deviation of the silos' levels"""
    trend: float = 0.0
    """standard deviations that a series rises or falls, normally distributed"""
    season: float = 0.0
    """amplitude of a wave of `PERIOD` steps, in standard deviations"""
    curve: float = 0.0
    """effect of the square of a variable, in standard deviations of it, on its child one step later; one such effect"""
    walks: int = 0
    """number of variables that are sums of their values so far: random walks whose steps have causes"""

    def data(self, seed: int) -> FederatedData:
        """The data set of `seed`."""
        rng = np.random.default_rng([seed, 24])
        model, d = self._model(rng), self.variables
        deviations = np.sqrt(rng.uniform(0.3, 3.0, d)) if self.unequal else np.ones(d)
        shares = 1 + rng.permutation(self.silos)
        lengths = np.maximum(self.rows * (2 + shares) // (2 * self.silos + shares.sum()), 10)
        later = self._later(model, rng) if self.changing else model
        walking = rng.permutation(d)[: self.walks] if self.walks else []
        own: dict[str, FloatArray] = {}
        tables: dict[str, FloatArray] = {}
        for silo, length in zip(silo_names(self.silos), lengths, strict=True):
            weights = self._around(model, rng) if self.slopes else model
            in_errors = weights * deviations[:, None] / deviations
            series = svar(in_errors, int(length) + 1, rng, self.noise)
            if self.curve:
                series = self._curved(series, model, rng)
            if self.changing:
                half = len(series) // 2
                series = np.vstack([series[:half], self._continued(series[:half], later, len(series) - half, rng)])
            series = series * deviations
            series[:, walking] = np.cumsum(series[:, walking], axis=0)
            tables[silo] = series + self._levels(series, rng)
            if self.slopes:
                own[silo] = weights
        names = variable_names(d)
        tables = self._in_units(tables, rng)
        stretches = {silo: (len(table),) for silo, table in tables.items()}
        truth = Structure(names, model[0], lagged=model[1:])
        return FederatedData(time_series(tables, stretches, names), tables, truth, own, {})

    def _model(self, rng: np.random.Generator) -> FloatArray:
        """W and A, `[2, d, d]`, drawn until stable; with a strong own past the lagged effects have one order."""
        d, (low, high) = self.variables, self.weights
        pairs, off = np.argwhere(np.tri(d, k=-1).T), np.argwhere(~np.eye(d, dtype=bool))
        for _ in range(1000):
            model, order = np.zeros((2, d, d)), rng.permutation(d)
            lagged = pairs if self.own_past else off
            for lag, cells, count in ((0, pairs, self.within), (1, lagged, self.across - d)):
                i, j = order[cells[rng.choice(len(cells), count, replace=False)]].T
                model[lag, i, j] = rng.uniform(low, high, count) * rng.choice([-1.0, 1.0], count)
            if self.own_past:
                model[1] *= 0.4
            own = rng.uniform(low, high, d) * rng.choice([-1.0, 1.0], d)
            np.fill_diagonal(model[1], self.own_past or own)
            if spectral_radius(model[0], model[1:]) < MAX_RADIUS:
                return model
        raise ValueError("no stable model")

    def _around(self, model: FloatArray, rng: np.random.Generator) -> FloatArray:
        while True:
            found = np.where(model != 0, model + rng.normal(0, self.slopes, model.shape), 0.0)
            if spectral_radius(found[0], found[1:]) < MAX_RADIUS:
                return np.asarray(found)

    def _later(self, model: FloatArray, rng: np.random.Generator) -> FloatArray:
        """The model of the second half, `[2, d, d]`, in which `changing` weights have become larger or smaller."""
        cells = np.argwhere(model)
        while True:
            changed = model.copy()
            at = tuple(cells[rng.choice(len(cells), self.changing, replace=False)].T)
            changed[at] += CHANGE * rng.choice([-1.0, 1.0], self.changing)
            if spectral_radius(changed[0], changed[1:]) < MAX_RADIUS:
                return changed

    def _continued(self, past: FloatArray, model: FloatArray, rows: int, rng: np.random.Generator) -> FloatArray:
        """`rows` further rows of `model` after the `past`, `[rows, d]`; error variances are equal."""
        total = np.linalg.inv(np.eye(self.variables) - model[0])
        found = [past[-1]]
        for shock in draw_noise(self.noise, (rows, self.variables), rng):
            found.append((found[-1] @ model[1] + shock) @ total)
        return np.array(found[1:])

    def _curved(self, series: FloatArray, model: FloatArray, rng: np.random.Generator) -> FloatArray:
        """As many rows of `model` in which one variable has the square of a lagged cause, too, `[n_rows, d]`.

        The cause and its child are those of the first lagged effect, the same in all silos. Squares count up to 9.
        """
        (cause, child), scale = np.argwhere(model[1] * (1 - np.eye(self.variables)))[0], series.std(axis=0)
        total = np.linalg.inv(np.eye(self.variables) - model[0])
        found = [np.zeros(self.variables)]
        for shock in draw_noise(self.noise, (len(series) + 100, self.variables), rng):
            past = found[-1] @ model[1] + shock
            past[child] += self.curve * (min((found[-1][cause] / scale[cause]) ** 2, 9.0) - 1)
            found.append(past @ total)
        return np.array(found[-len(series) :])

    def _levels(self, series: FloatArray, rng: np.random.Generator) -> FloatArray:
        """Its level, trend and season, `[n_rows, d]`."""
        times, d = np.arange(len(series))[:, None], self.variables
        spread = series.std(axis=0)
        wave = np.sin(2 * np.pi * times / PERIOD + rng.uniform(0, 2 * np.pi, d))
        rise = times / len(series) * rng.normal(0, self.trend, d)
        return np.asarray(rng.normal(0, self.levels, d) + (rise + self.season * wave) * spread)

    def _in_units(self, tables: dict[str, FloatArray], rng: np.random.Generator) -> dict[str, FloatArray]:
        if self.columns == "as drawn":
            return tables
        centred = np.concatenate([table - table.mean(axis=0) for table in tables.values()])
        scale = 1 / centred.std(axis=0)
        if self.columns == "units":
            scale = np.geomspace(1, 1000, self.variables)[rng.permutation(self.variables)]
        return {silo: table * scale for silo, table in tables.items()}


def case(**settings: Any) -> Case:
    """A case with some settings of its own."""
    return replace(Case(), **settings)


CASES: dict[str, tuple[Case, str]] = {
    "equal variances": (case(), "≤ .3, ≤ .3"),
    "equal variances, d = 20": (case(variables=20, within=19, across=40), "≤ .3, ≤ .3"),
    "unequal variances": (case(unequal=True), "≤ .5, ≤ .5"),
    "standardised": (case(columns="standardised"), "≤ .5, ≤ .5"),
    "own units": (case(columns="units"), "≤ .5, ≤ .5"),
    "exponential, standardised": (case(columns="standardised", noise="exponential"), "≤ .5, ≤ .5"),
    "AR .93": (case(own_past=0.93), "≤ .5, ≤ .5"),
    "weak": (case(weights=(0.15, 0.3)), "≤ .5, ≤ .5"),
    "n = 50 x 3": (case(rows=150, silos=3), "≤ 1, ≤ 3"),
    "slopes sd .25 between silos": (case(slopes=0.25), "≤ 1, ≤ 3"),
    "trend": (case(trend=8.0), "≤ 1, ≤ 2"),
    "season": (case(season=2.0), "≤ 1, ≤ 2"),
}
"""by name, the data and the W SHD and A SHD that are asked for"""
LARGE: dict[str, tuple[Case, str]] = {
    f"{columns}, d = {d}": (
        case(variables=d, rows=5000, silos=10, within=d - 1, across=2 * d, columns=columns),
        f"≤ {seconds} CPU s",
    )
    for columns in ("as drawn", "standardised")
    for d, seconds in ((50, 2), (100, 5), (200, 10))
}
"""by name, larger data and the CPU seconds that are asked for"""
