"""Regimes that no rule was tuned for: what the default finds, and what it says.

`python benchmarks/regimes.py` runs all tables, `--table NAME` one of them. Unless a line says otherwise: an ER graph
with d = 20 and 30 edges, weights of .5 to 1.5, 4,000 rows over 8 silos of unequal size, columns in random order and
units, ten seeds from 3000 on; rules were chosen on seeds from 100 to 105. CPU seconds are those of a whole run with its
diagnosis, resamples and parameters, with compiled code already loaded.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from measure import mean_and_sd, run_tables, show
from misfit import distance
from numpy.typing import NDArray
from real import NOISES, dealt
from scipy.signal import lfilter

from fedbnsl import learn
from fedbnsl.algorithms.core.schema import FloatArray
from fedbnsl.algorithms.errors import BadInput
from fedbnsl.algorithms.graphs.cpdag import cpdag
from fedbnsl.algorithms.graphs.dag import topological_order
from fedbnsl.algorithms.graphs.structure import Structure
from fedbnsl.data.federated import FederatedData, continuous, silo_names, time_series
from fedbnsl.data.generators.random_graphs import random_dag

SEEDS, CLEAN_SEEDS = range(3000, 3010), range(4000, 4050)
D, EDGES, ROWS, SILOS = 20, 30, 4000, 8
Mechanism = Callable[[np.random.Generator, FloatArray, FloatArray, FloatArray], FloatArray]
"""(generator, values of the parents `[n, p]`, their weights `[p]`, errors `[n]`) -> values of the child `[n]`"""


def in_sd(x: FloatArray) -> FloatArray:
    """Deviations from the mean in standard deviations; zeros if `x` is constant."""
    sd = x.std(axis=0)
    return np.asarray((x - x.mean(axis=0)) / np.where(sd > 0, sd, 1.0))


def weighted(parents: FloatArray, weights: FloatArray) -> FloatArray:
    """The weighted sum of standardised parents."""
    return np.asarray(in_sd(parents) @ weights)


CURVES: tuple[Callable[[FloatArray], FloatArray], ...] = (
    np.tanh,
    np.cbrt,
    lambda x: np.exp(0.5 * x),
    lambda x: x + 0.3 * x**3,
    lambda x: np.log1p(np.exp(2 * x)),
)
"""monotone functions"""


def curve(rng: np.random.Generator) -> Callable[[FloatArray], FloatArray]:
    """One of the monotone functions."""
    return CURVES[rng.integers(len(CURVES))]


def linear(rng: np.random.Generator, pa: FloatArray, w: FloatArray, e: FloatArray) -> FloatArray:
    """The linear model."""
    return weighted(pa, w) + e


def heteroscedastic(rng: np.random.Generator, pa: FloatArray, w: FloatArray, e: FloatArray) -> FloatArray:
    """A linear mean; the standard deviation of the error is between 1/e and e, by the mean of the parents."""
    spread = np.exp(0.5 * np.clip(in_sd(in_sd(pa).sum(axis=1)), -2, 2)) if pa.shape[1] else 1.0
    return weighted(pa, w) + e * spread


def variance_by_one_parent(rng: np.random.Generator, pa: FloatArray, w: FloatArray, e: FloatArray) -> FloatArray:
    """A linear mean; the variance of the error is linear in the square of one parent."""
    spread = np.sqrt(0.3 + 0.7 * in_sd(pa[:, 0]) ** 2) if pa.shape[1] else 1.0
    return weighted(pa, w) + e * spread


def post_nonlinear(rng: np.random.Generator, pa: FloatArray, w: FloatArray, e: FloatArray) -> FloatArray:
    """A monotone function of the sum of curved effects and error."""
    inner = sum((w[k] * in_sd(curve(rng)(in_sd(pa[:, k]))) for k in range(pa.shape[1])), np.zeros(len(e)))
    return curve(rng)(in_sd(inner + e))


def distorted(rng: np.random.Generator, pa: FloatArray, w: FloatArray, e: FloatArray) -> FloatArray:
    """A monotone function of a linear sum and an error."""
    return curve(rng)(in_sd(weighted(pa, w) + e))


def products(rng: np.random.Generator, pa: FloatArray, w: FloatArray, e: FloatArray) -> FloatArray:
    """A linear model with the product of the first two parents."""
    z = in_sd(pa)
    return weighted(pa, w) + e + (z[:, 0] * z[:, 1] if pa.shape[1] > 1 else 0.0)


def only_products(rng: np.random.Generator, pa: FloatArray, w: FloatArray, e: FloatArray) -> FloatArray:
    """Half of each effect is the product of all parents."""
    z = in_sd(pa)
    return 0.5 * weighted(pa, w) + e + (z.prod(axis=1) if pa.shape[1] > 1 else 0.0)


def multiplicative(rng: np.random.Generator, pa: FloatArray, w: FloatArray, e: FloatArray) -> FloatArray:
    """Positive values: errors multiply the mean, on a logarithmic scale that is linear."""
    return np.exp(0.5 * in_sd(weighted(np.log(pa), w) + e) if pa.shape[1] else 0.5 * e)


def additive(effect: Callable[[FloatArray], FloatArray]) -> Mechanism:
    """An additive model in which each effect has this shape."""

    def mechanism(rng: np.random.Generator, pa: FloatArray, w: FloatArray, e: FloatArray) -> FloatArray:
        return sum((w[k] * in_sd(effect(in_sd(pa[:, k]))) for k in range(pa.shape[1])), np.zeros(len(e))) + e

    return mechanism


def wave(x: FloatArray) -> FloatArray:
    """A sine with about one period over the data."""
    return np.asarray(np.sin(1.5 * x))


def gaussian(rng: np.random.Generator, size: tuple[int, int]) -> FloatArray:
    """Independent Gaussian errors."""
    return rng.normal(size=size)


def persons(rng: np.random.Generator, size: tuple[int, int], visits: int = 5, share: float = 0.5) -> FloatArray:
    """Errors with a common part within each run of `visits` rows; its share of the variance is `share`."""
    common = np.repeat(rng.normal(size=(-(-size[0] // visits), size[1])), visits, axis=0)[: size[0]]
    return np.sqrt(share) * common + np.sqrt(1 - share) * rng.normal(size=size)


def autoregressive(rho: float) -> Callable[[np.random.Generator, tuple[int, int]], FloatArray]:
    """Errors with autocorrelation `rho` between rows that follow each other."""

    def draw(rng: np.random.Generator, size: tuple[int, int]) -> FloatArray:
        errors = rng.normal(size=size)
        for row in range(1, size[0]):
            errors[row] = rho * errors[row - 1] + np.sqrt(1 - rho**2) * errors[row]
        return errors

    return draw


def mixture(rng: np.random.Generator, size: tuple[int, int]) -> FloatArray:
    """Bimodal errors."""
    signs = rng.choice([-1.0, 1.0], size)
    return (0.9 * signs + np.sqrt(1 - 0.81) * rng.normal(size=size)).astype(float)


def lognormal(rng: np.random.Generator, size: tuple[int, int]) -> FloatArray:
    """Errors with a heavy right tail."""
    return (rng.lognormal(sigma=1.0, size=size) - np.exp(0.5)) / np.sqrt((np.e - 1) * np.e)


def cauchy_like(rng: np.random.Generator, size: tuple[int, int]) -> FloatArray:
    """Errors of a t distribution with 1.5 degrees of freedom, which have no variance."""
    return rng.standard_t(1.5, size=size)


After = Callable[[np.random.Generator, FloatArray], FloatArray]
"""(generator, drawn values) -> observed values"""


def cut(rng: np.random.Generator, X: FloatArray) -> FloatArray:
    """Values beyond detection limits at both ends are those limits: up to 15 % at each end."""
    low, high = rng.uniform(0, 0.15, X.shape[1]), 1 - rng.uniform(0, 0.15, X.shape[1])
    limits = [np.quantile(X[:, j], (low[j], high[j])) for j in range(X.shape[1])]
    return np.column_stack([np.clip(X[:, j], *limits[j]) for j in range(X.shape[1])])


def cut_below(rng: np.random.Generator, X: FloatArray) -> FloatArray:
    """A fifth of each column is its detection limit."""
    return np.asarray(np.maximum(X, np.quantile(X, 0.2, axis=0)))


def from_elsewhere(rng: np.random.Generator, X: FloatArray, share: float = 0.03) -> FloatArray:
    """Three rows in a hundred are from another population."""
    other = in_sd(rng.normal(size=X.shape) @ rng.normal(size=(X.shape[1],) * 2)) * 3 * X.std(axis=0)
    return np.where(rng.random((len(X), 1)) < share, X.mean(axis=0) + other, X)


def shares(rng: np.random.Generator, X: FloatArray) -> FloatArray:
    """Each row as shares that sum to one."""
    parts = np.exp(in_sd(X))
    return np.asarray(parts / parts.sum(axis=1, keepdims=True))


def rounded(rng: np.random.Generator, X: FloatArray) -> FloatArray:
    """One digit."""
    return np.asarray(np.round(in_sd(X), 1))


def zero_inflated(rng: np.random.Generator, X: FloatArray) -> FloatArray:
    """A third of the cells of five columns are 0."""
    zeros = rng.random(X.shape) < 0.33
    zeros[:, rng.permutation(X.shape[1])[5:]] = False
    return np.where(zeros, 0.0, X - X.min(axis=0))


def repeated(rng: np.random.Generator, X: FloatArray, times: int = 5) -> FloatArray:
    """Each row occurs five times in succession."""
    return np.asarray(np.repeat(X[: -(-len(X) // times)], times, axis=0)[: len(X)])


def trend(rng: np.random.Generator, X: FloatArray) -> FloatArray:
    """Every column drifts by a standard deviation over the rows."""
    return X + np.linspace(-0.5, 0.5, len(X))[:, None] * X.std(axis=0) * rng.choice([-1.0, 1.0], X.shape[1])


def selected(rng: np.random.Generator, X: FloatArray) -> FloatArray:
    """Rows are more likely to be there if two columns are large."""
    score = in_sd(X[:, :2]).sum(axis=1)
    return X[np.sort(np.argsort(score + rng.logistic(size=len(X)))[len(X) // 2 :])]


@dataclass(frozen=True)
class Regime:
    """How a regime is drawn, and what it should reach."""

    mechanism: Mechanism = linear
    errors: Callable[[np.random.Generator, tuple[int, int]], FloatArray] = gaussian
    observe: After | None = None
    asked: str = ""
    unequal: bool = True
    """whether error variances differ"""
    units: bool = True
    """whether columns have units of their own"""
    variables: int = D
    edges: int = EDGES
    rows: int = ROWS
    silos: int = SILOS
    hidden: int = 0
    """number of hidden common causes of three variables each"""
    change: Callable[[FederatedData, int], FederatedData] = lambda data, seed: data
    """what happens to the silos' tables at last"""
    clean: bool = False
    """whether a linear model holds, so that no finding is right"""


REGIMES: dict[str, Regime] = {
    "linear, Gaussian": Regime(clean=True),
    "linear, Gaussian, equal variances": Regime(unequal=False, units=False, clean=True),
    "linear, exponential errors": Regime(errors=NOISES["exponential"], clean=True),
    "linear, Laplace errors": Regime(errors=NOISES["laplace"], clean=True),
    "linear, uniform errors": Regime(errors=NOISES["uniform"], clean=True),
    "linear, bimodal errors": Regime(errors=mixture, clean=True),
    "linear, t3 errors": Regime(errors=NOISES["t3"], clean=True),
    "linear, log-normal errors": Regime(errors=lognormal),
    "linear, errors without a variance": Regime(errors=cauchy_like, asked="not refused"),
    "linear, 60 edges": Regime(edges=60, clean=True),
    "linear, 400 rows": Regime(rows=400, clean=True),
    "linear, 40,000 rows": Regime(rows=40_000, clean=True),
    "linear, 60 silos of 12 rows or more": Regime(rows=2000, silos=60, clean=True),
    "error variance depends on all parents": Regime(heteroscedastic, asked="≤ 1"),
    "error variance depends on one parent": Regime(variance_by_one_parent, asked="≤ 1"),
    "the same, exponential errors": Regime(heteroscedastic, NOISES["exponential"]),
    "post-nonlinear": Regime(post_nonlinear, asked="≤ 10, none refused"),
    "distorted": Regime(distorted, asked="≤ 10"),
    "multiplicative errors": Regime(multiplicative),
    "products of parents": Regime(products, asked="≤ 6"),
    "mostly products of parents": Regime(only_products),
    "additive, tanh": Regime(additive(np.tanh), asked="no loss"),
    "additive, quadratic": Regime(additive(np.square), asked="no loss"),
    "additive, linear + quadratic": Regime(additive(lambda x: x + 0.5 * x**2), asked="no loss"),
    "additive, waves": Regime(additive(wave), asked="no loss"),
    "additive, absolute values": Regime(additive(np.abs), asked="no loss"),
    "additive, tanh, exponential errors": Regime(additive(np.tanh), NOISES["exponential"]),
    "additive, linear + quadratic, Laplace errors": Regime(additive(lambda x: x + 0.5 * x**2), NOISES["laplace"]),
    "detection limits at both ends": Regime(observe=cut, asked="≤ 6"),
    "detection limit below": Regime(observe=cut_below, asked="≤ 6"),
    "3 % of rows from elsewhere": Regime(observe=from_elsewhere, asked="≤ 5 after its command"),
    "zero-inflated": Regime(observe=zero_inflated),
    "rounded to a tenth": Regime(observe=rounded, clean=True),
    "compositional": Regime(observe=shares, units=False, asked="a finding; ≤ 20 with log-ratios"),
    "five rows a person": Regime(errors=persons, asked="≤ 3"),
    "ten rows a person": Regime(errors=lambda rng, size: persons(rng, size, 10, 0.8), asked="≤ 3"),
    "autocorrelated rows, .5": Regime(errors=autoregressive(0.5), asked="≤ 5"),
    "autocorrelated rows, .9": Regime(errors=autoregressive(0.9), asked="≤ 5"),
    "each row five times": Regime(observe=repeated, asked="≤ 5"),
    "drift over the rows": Regime(observe=trend),
    "selected rows": Regime(observe=selected),
    "3 hidden causes": Regime(hidden=3),
    "6 hidden causes": Regime(hidden=6),
    "3 hidden causes, exponential errors": Regime(errors=NOISES["exponential"], hidden=3),
    "d = 100, 60 rows": Regime(variables=100, edges=100, rows=60, silos=5, asked="≤ 40, ≤ 3 CPU s"),
    "d = 500, 600 rows": Regime(variables=500, edges=500, rows=600, silos=5, unequal=False, asked="≤ 15 CPU s"),
}


def drawn(regime: Regime, seed: int) -> FederatedData:
    """The silos of a regime."""
    rng, d = np.random.default_rng(seed), regime.variables
    dag = random_dag(d, regime.edges, rng, "ER")
    weights = dag * rng.uniform(0.5, 1.5, (d, d)) * rng.choice([-1.0, 1.0], (d, d))
    errors = regime.errors(rng, (regime.rows, d))
    if regime.unequal:
        errors = errors * np.sqrt(rng.uniform(0.3, 2.0, d))
    for _ in range(regime.hidden):
        effects = rng.choice(d, 3, replace=False)
        errors[:, effects] += rng.normal(size=(regime.rows, 1)) * rng.uniform(0.7, 1.5, 3) * rng.choice([-1.0, 1.0], 3)
    X = np.zeros((regime.rows, d))
    for j in topological_order(dag):
        parents = np.flatnonzero(dag[:, j])
        if regime.mechanism is linear:
            X[:, j] = X[:, parents] @ weights[parents, j] + errors[:, j]
        else:
            X[:, j] = regime.mechanism(rng, X[:, parents], weights[parents, j], errors[:, j])
    X = X if regime.observe is None else regime.observe(rng, X)
    X = X * 10.0 ** rng.uniform(-1, 1, d) if regime.units else X
    tables = dict(zip(silo_names(regime.silos), dealt(X, regime.silos, rng), strict=True))
    names = tuple(f"v{place:03d}" for place in rng.permutation(d))
    return regime.change(FederatedData(continuous(tables, names), tables, Structure(names, weights)), seed)


@dataclass(frozen=True)
class Ran:
    """One run of the default."""

    seed: int
    shd_cpdag: float
    shd_skeleton: float
    strong: int
    """number of edges with a strength above .9"""
    strong_right: int
    arrows: int
    """number of arrowheads at strong edges that are drawn as sure"""
    arrows_right: int
    findings: tuple[str, ...]
    algorithm: str
    cpu_seconds: float
    refused: str


def ran(regime: Regime, seed: int, algorithm: str = "auto", **options: Any) -> Ran:
    """Learn by default from one draw, and compare with its truth."""
    data = drawn(regime, seed)
    assert data.truth is not None
    truth = cpdag(data.truth.adjacency)
    start = time.process_time()
    try:
        result = learn(data, algorithm, **({"seed": seed, "bootstrap": None} | options)).result
    except BadInput as error:
        return Ran(seed, np.nan, np.nan, 0, 0, 0, 0, (), algorithm, time.process_time() - start, str(error))
    spent = time.process_time() - start
    graph = result.structure.adjacency
    joined, true = graph | graph.T, truth | truth.T
    strong = np.zeros_like(joined)
    arrows = np.zeros_like(joined)
    if result.confidence is not None:
        strong = np.triu(joined & (result.confidence.strengths.strength > 0.9))
        arrows = (strong | strong.T) & graph & ~graph.T & (result.confidence.strengths.direction >= 0.8)
        for source, target in result.doubted:
            arrows[data.schema.variables.index(source), data.schema.variables.index(target)] = False
    in_class = cpdag(graph) if result.structure.kind == "dag" else graph
    return Ran(
        seed,
        distance(in_class, truth),
        float(np.triu(joined != true).sum()),
        int(strong.sum()),
        int((strong & true).sum()),
        int(arrows.sum()),
        int((arrows & data.truth.adjacency).sum()),
        tuple(one.name for one in result.diagnosed.findings),
        result.algorithm,
        spent,
        "",
    )


def shown(title: str, regimes: dict[str, Regime], seeds: Sequence[int], **options: Any) -> None:
    """Run and show the table of these regimes."""
    runs = {label: [ran(regime, seed, **options) for seed in seeds] for label, regime in regimes.items()}
    rows = []
    for label, of in runs.items():
        ended = [run for run in of if not run.refused]
        names = sorted({name for run in of for name in run.findings})
        rows.append(
            {
                "data": label,
                "seeds": len(of),
                "refused": len(of) - len(ended),
                "CPDAG SHD": mean_and_sd([run.shd_cpdag for run in ended], 1) if ended else "",
                "strong edges right": f"{sum(run.strong_right for run in of)}/{sum(run.strong for run in of)}",
                "arrowheads right": f"{sum(run.arrows_right for run in of)}/{sum(run.arrows for run in of)}",
                "findings": ", ".join(f"{name} {sum(name in run.findings for run in of)}" for name in names),
                "CPU s": f"{np.mean([run.cpu_seconds for run in of]):.1f}",
                "asked": regimes[label].asked,
            }
        )
    show(title, rows, runs)


def regimes() -> None:
    """The default on every regime."""
    ran(REGIMES["additive, tanh"], 1)  # loads compiled code
    shown("regimes", REGIMES, SEEDS)


@dataclass(frozen=True)
class WithFarCell:
    """A regime in which one cell is moved by a number of standard deviations of its column and silo."""

    by: float

    def __call__(self, data: FederatedData, seed: int) -> FederatedData:
        """`data` with the moved cell."""
        rng, tables = np.random.default_rng([seed, 8]), dict(data.tables)
        silo = list(tables)[rng.integers(len(tables))]
        X = tables[silo] = tables[silo].copy()
        row, column = rng.integers(X.shape[0]), rng.integers(X.shape[1])
        X[row, column] += self.by * X[:, column].std()
        return replace(data, tables=tables)


def cells() -> None:
    """One wrong cell among 80,000, and heavy tails, in which far numbers are none: by default, and with all kept."""
    regimes = {
        f"one cell moved by {by:g} standard deviations": Regime(change=WithFarCell(by)) for by in (30, 1e3, 1e5, 1e7)
    }
    for label in ("linear, t3 errors", "linear, log-normal errors", "linear, errors without a variance"):
        regimes[label] = REGIMES[label]
    shown("regimes-cells", regimes, SEEDS, bootstrap=0)
    kept = ",".join(f"v{place:03d}=none" for place in range(D))
    shown("regimes-cells-kept", regimes, SEEDS, bootstrap=0, transform=kept)


def set_aside() -> None:
    """The advice on rows from elsewhere, followed on the same rows."""
    label = "3 % of rows from elsewhere"
    shown("regimes-set-aside", {label: REGIMES[label]}, SEEDS, outliers="set-aside")


def log_ratios() -> None:
    """The advice on shares of a whole, followed on the same rows."""
    shown("regimes-log-ratios", {"compositional": REGIMES["compositional"]}, SEEDS, transform="log-ratio")


def strengths() -> None:
    """Strengths and directions by 30 resamples."""
    small = {label: regime for label, regime in REGIMES.items() if regime.variables == D}
    shown("regimes-strengths", small, SEEDS[:3], bootstrap=30)


@dataclass(frozen=True)
class Series:
    """A regime of time series: 8 variables, 8 effects within a step, 8 effects across one step and persistence."""

    observe: Callable[[FloatArray], FloatArray] = lambda X: X
    """the series as they are observed"""
    steps: int = 1
    """number of steps of the process for each observed step"""
    hidden: float | None = None
    """autocorrelation of a hidden cause of four variables; None: there is none"""
    periods: tuple[int, ...] = ()
    """periods of seasons, in rows"""
    asked: str = ""
    period: int | None = None
    """the option on seasons: None for the default, 0 to keep them"""


SERIES = {
    "series": Series(asked="no finding"),
    "hidden cause without a past": Series(hidden=0.0, asked="≤ 4 false, or a finding"),
    "hidden cause that lasts": Series(hidden=0.7, asked="≤ 4 false, or a finding"),
    "means of 4 steps": Series(lambda X: X.reshape(-1, 4, X.shape[1]).mean(axis=1), 4, asked="a finding"),
    "every third step": Series(lambda X: X[::3], 3, asked="a finding"),
    "periods 7 and 24": Series(periods=(7, 24), asked="≤ 2 false"),
    "periods 7 and 24, with --deseasonalise 0": Series(periods=(7, 24), period=0),
}
SERIES_VARIABLES, SERIES_ROWS, SERIES_SILOS = 8, 3000, 5


def drawn_series(regime: Series, seed: int) -> tuple[FederatedData, NDArray[np.bool_]]:
    """The silos of a regime, and which variable affects which one a step later, `[d, d]`."""
    rng, d = np.random.default_rng([seed, 9]), SERIES_VARIABLES
    signs = rng.choice([-1.0, 1.0], (2, d, d))
    within = random_dag(d, d, rng, "ER") * rng.uniform(0.3, 0.8, (d, d)) * signs[0]
    others = rng.permutation(np.flatnonzero(~np.eye(d, dtype=bool)))[:d]
    across = np.diag(rng.uniform(0.3, 0.6, d))
    across.flat[others] = rng.uniform(0.3, 0.5, d) * signs[1].flat[others]
    total = np.linalg.inv(np.eye(d) - within)
    while np.abs(np.linalg.eigvals(across @ total)).max() > 0.9:
        across *= 0.9
    deviations, affected = np.sqrt(rng.uniform(0.3, 2.0, d)), rng.choice(d, 4, replace=False)
    loads, tables = rng.uniform(0.7, 1.5, 4) * rng.choice([-1.0, 1.0], 4), {}
    for silo in silo_names(SERIES_SILOS):
        errors = rng.normal(size=(SERIES_ROWS // SERIES_SILOS * regime.steps + 48, d)) * deviations
        if regime.hidden is not None:
            cause = lfilter([1.0], [1.0, -regime.hidden], rng.normal(size=len(errors)))
            errors[:, affected] += cause[:, None] * loads
        X = np.zeros_like(errors)
        for t in range(1, len(X)):
            X[t] = (X[t - 1] @ across + errors[t]) @ total
        times = np.arange(len(X))[:, None]
        for period in regime.periods:
            phase = rng.uniform(0, 2 * np.pi, d)
            X += 2 * X.std(axis=0) * np.sin(2 * np.pi * times / period + phase)
        tables[silo] = regime.observe(X[48:])
    names = tuple(f"v{place}" for place in rng.permutation(d))
    return FederatedData(
        time_series(tables, {silo: (len(own),) for silo, own in tables.items()}, names), tables
    ), across != 0


@dataclass(frozen=True)
class RanSeries:
    """One run of the default on time series: its edges between different variables across time."""

    seed: int
    false: int
    missed: int
    findings: tuple[str, ...]
    cpu_seconds: float


def over_time() -> None:
    """The default on time series."""
    rows, runs = [], {}
    for label, regime in SERIES.items():
        found = []
        for seed in SEEDS:
            data, true = drawn_series(regime, seed)
            start = time.process_time()
            result = learn(data, seed=seed, bootstrap=0, deseasonalise=regime.period).result
            lagged, others = result.structure.lagged, ~np.eye(len(true), dtype=bool)
            seen = np.zeros_like(true) if lagged is None else lagged.any(axis=0)
            found.append(
                RanSeries(
                    seed,
                    int((seen & ~true & others).sum()),
                    int((true & ~seen & others).sum()),
                    tuple(one.name for one in result.diagnosed.findings),
                    time.process_time() - start,
                )
            )
        names = sorted({name for run in found for name in run.findings})
        rows.append(
            {
                "data": label,
                "seeds": len(found),
                "false lagged edges": mean_and_sd([run.false for run in found], 1),
                "missed": mean_and_sd([run.missed for run in found], 1),
                "findings": ", ".join(f"{name} {sum(name in run.findings for run in found)}" for name in names),
                "CPU s": f"{np.mean([run.cpu_seconds for run in found]):.1f}",
                "asked": regime.asked,
            }
        )
        runs[label] = found
    show("regimes-series", rows, runs)


def rows_by_variable() -> None:
    """Equal error variances of many variables, at different numbers of rows."""
    rows, runs = [], {}
    equal = REGIMES["linear, Gaussian, equal variances"]
    for d, seeds in ((300, SEEDS[:3]), (1000, SEEDS[:1])):
        for ratio in (0.6, 1.2, 2, 3, 5, 10, 20, 40):
            n = int(ratio * d)
            regime = replace(equal, variables=d, edges=d, rows=n, silos=5)
            label = f"d = {d}, n = {n}"
            found = [
                ran(regime, seed, "secure-linear", bootstrap=0, diagnose=False, parameters=False) for seed in seeds
            ]
            rows.append(
                {
                    "data": label,
                    "seeds": len(found),
                    "CPDAG SHD": mean_and_sd([run.shd_cpdag for run in found], 1),
                    "CPU s": f"{np.mean([run.cpu_seconds for run in found]):.1f}",
                    "asked": "elimination ≤ 3 CPU s" if ratio >= 2 else "",
                }
            )
            runs[label] = found
    show("regimes-rows", rows, runs)


def alarms() -> None:
    """How often each finding is reported on clean data."""
    clean = {label: regime for label, regime in REGIMES.items() if regime.clean}
    runs = {label: [ran(regime, seed, bootstrap=0) for seed in CLEAN_SEEDS] for label, regime in clean.items()}
    rows = [
        {
            "clean data": label,
            "seeds": len(of),
            "runs with a finding": sum(bool(run.findings) for run in of),
            "findings": ", ".join(sorted({name for run in of for name in run.findings})),
            "asked": "each ≤ 1 %, all together ≤ 5 %",
        }
        for label, of in runs.items()
    ]
    show("regimes-alarms", rows, runs)


if __name__ == "__main__":
    tables = {
        "regimes": regimes,
        "cells": cells,
        "set-aside": set_aside,
        "log-ratios": log_ratios,
        "strengths": strengths,
        "series": over_time,
        "rows": rows_by_variable,
        "alarms": alarms,
    }
    run_tables(tables, __doc__, __file__)
