"""Diagnosis of a run on numbers: pooled means and variances, and silos that disagree with the others.

Exchange 1 is a sum: each silo's share of the rows, means, and second moments about its own means.

Exchange 2 sends the sums to the silos. Each silo subtracts its own part and compares itself with the other silos. It
answers with figures, each with the column of its maximum. They are the distance of its means from the means of the
other silos; the gain of its own regressions on the learned edges, on its rows, over the regressions of the other silos;
the share of outliers among its cells; the curvature of effects (`curvature.py`); and, for independent rows, figures on
faults (`silo_faults.py`). For each edge, the silos add up whether it falls without them.

The coordinator must see these figures to name the silo that disagrees. So each silo sends them in its own slot of the
sum (`silo_slots`), with zeros in the slots of the other silos. A further figure is the gain of suggested transforms
(`statistics/transforms.py`). Only its mean over all rows is needed, so it is added up over the silos. Time series have
three other figures, on trend, season (`over_time.py`) and weights that change (`change.py`), and sums from which the
coordinator tests for weights that change equally in all silos.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core.protocol import FederatedAlgorithm, Replies, Summand, sum_each_round
from ..core.schema import NO_IMPUTATION, FloatArray, Schema, Transform
from ..core.settings import Settings
from ..graphs.edges import padded_lagged_weights
from ..graphs.structure import Structure, empty_structure
from ..parameters.networks import unrolled_weights
from ..privacy.disclosure_control import rare_indicators
from ..statistics.coding import coded_names, coded_units, coding_of
from ..statistics.declared_sums import require_declared_rows, require_second_moments
from ..statistics.expected_moments import about_own_means
from ..statistics.lagged import window_schema
from ..statistics.moments import (
    SummedMomentsWithin,
    Table,
    about_means,
    column_summaries,
    moment_units,
    sum_over_chunks,
    thin_rows,
)
from ..statistics.packing import Block, Packing, packing
from ..statistics.transforms import NORMAL_SCORES, transform_gain
from .change import (
    CHANGE_FALSE_ALARMS,
    NO_CHANGES,
    ChangeTests,
    change_tests,
    children_of,
    effective_windows,
    fluctuations,
    hotelling_bound,
    long_run_ratio,
)
from .curvature import chi_square_bound, curvature, rank_inflation, score_statistic
from .over_time import seasons, trend_t_values
from .series_rows import series_rows
from .silo_faults import FAULT_FIGURES, evidence, fault_figures, influence_edges, require_scales_of_a_sum


def silo_slots(silos: int, figures: int) -> FloatArray:
    """Empty slots for the figures of all silos, `[silos, figures, 2]`: a figure is a value and its column's index."""
    return np.zeros((silos, figures, 2))


def no_figures(silos: int, figures: int) -> FloatArray:
    """The figures of silos that sent none, `[silos, figures, 2]`: NaN."""
    return np.full((silos, figures, 2), np.nan)


def by_silo(slots: FloatArray, replies: Replies[Any], schema: Schema) -> FloatArray:
    """The figures of each silo from its slots, in sorted order, `[silos, figures, 2]`; NaN for a lost silo."""
    figures = slots.reshape(len(schema.silos), -1, 2).copy()
    figures[[slot for slot, silo in enumerate(schema.silos) if silo not in replies.silos]] = np.nan
    return figures


OUTLIER_SPREADS = 6.0
"""distance of an outlier from the median, in units of the distance of the 10 % quantile on its side (1.28 standard
deviations for a Gaussian)"""
TAIL_SHARE = 0.4
"""assumed ratio of far cells to cells between half the distance and the distance in a heavy tail; for t with 3 degrees
of freedom it is 1/7"""
FALSE_ALARMS = 0.005
"""probability that a silo with the same weights is reported as different"""
CURVATURE_FALSE_ALARMS = 0.02
"""nominal probability that linear effects are reported as curved; the test is conservative"""
MEDIAN_ROWS = 20_000
"""number of rows from which medians are computed, if a table is read in passes"""
ROUNDING = 1e-9
"""mean of an indicator up to which no row has its level; sums behind masks are rounded"""
MIN_CHANCE_RATIO = 5.0
"""minimum ratio of a reported figure to its size by chance"""
COMMON_FIGURES = ("shift", "weights", "outliers", "bend")
FIGURES = (*COMMON_FIGURES, *FAULT_FIGURES)
"""the figures of a silo, each sent with the index of its column"""
SERIES_FIGURES = (*COMMON_FIGURES, "trend", "season", "change")
"""the figures of a silo with time series"""


@dataclass(frozen=True)
class Diagnosis(Settings):
    """Settings of the exchange."""

    masked: bool = False
    """always mask the replies, even if the run does not"""
    lags: int = 0
    """for time series, the number of lags of the learned structure; a window has this many rows before the present"""
    own_figures: bool = True
    """whether silos compare themselves with the others in a second exchange, and send the figures of the comparison"""


@dataclass(frozen=True)
class Silo:
    """A silo's rows `[n_rows, d]`, their moments, its index, and the numbers of silos and of all rows."""

    table: Table
    """NaN where a cell is empty"""
    means: FloatArray
    products: FloatArray
    """summed second moments about the means, `[d, d]`, with expected values for empty cells"""
    rows: int
    """the number of rows in these sums; for series read in passes, `table` has only evenly spaced rows of them"""
    own: FloatArray
    """second moments per row of `table`, `[d, d]`"""
    numbers: NDArray[np.bool_]
    """whether each column is a continuous variable, not an indicator of a level"""
    labels: NDArray[np.int64]
    """the variable of each column that is an indicator of a level, by number; -1 for other columns"""
    there: NDArray[np.bool_]
    """whether each column has any value in this silo"""
    place: int
    silos: int
    all_rows: int
    variables: int
    """number of columns that are compared; in time series these are the present columns, which precede their lags"""
    skewed: Mapping[int, Transform]
    """the suggested transforms, by column"""
    ranked: NDArray[np.bool_]
    """whether each column has normal scores"""
    over_time: FloatArray
    """the figures on trend and season, `[n_figures, 2]`; empty for independent rows"""
    times: FloatArray
    """for time series, the relative time of each window, `[n_rows]`; empty for independent rows"""


@dataclass(frozen=True)
class Broadcast:
    """The sums over `rows` rows, and the learned edges; the sums are empty in the first exchange."""

    rows: int
    means: FloatArray
    """`[d]`"""
    within: FloatArray
    """second moments about the silos' own means, `[d, d]`"""
    parents: NDArray[np.bool_]
    """`[d, d]`: whether i and j are adjacent and i may be a cause of j"""
    counted: NDArray[np.bool_]
    """whether each silo, in sorted order, is in these sums"""
    inflation: float
    """the factor by which dependent rows increase the variances of means and weights; 1 for independent rows"""


@dataclass(frozen=True)
class Server:
    """The server's state."""

    schema: Schema
    parents: NDArray[np.bool_]
    rows: int
    """number of rows of the silos that answered"""
    means: FloatArray
    within: FloatArray
    """second moments about the silos' own means `[d, d]`, per row"""
    counted: NDArray[np.bool_]
    """whether each silo, in sorted order, is in these sums"""
    figures: FloatArray
    """the value and the column of each figure of each silo, in sorted order; NaN for a lost silo"""
    owners: NDArray[np.int64]
    """the variable of each column of coded tables or, for time series, of each present column of windows, `[d]`"""
    changes: ChangeTests = NO_CHANGES
    """for time series, the ratios to their bounds of the statistics for weights that change in all silos"""
    transform_gain: float = 0.0
    """gain in the strength of linear relations by the suggested transforms, in nats per row"""
    inflation: float = 1.0
    """the factor by which dependent rows increase the variances of means and weights; 1 for independent rows"""
    fallen: FloatArray = field(default_factory=lambda: np.empty((0, 2)))
    """for independent rows, by edge the number of silos without which it falls, and the sum of their slots plus one"""

    @property
    def moments(self) -> SummedMomentsWithin:
        """The sums of exchange 1."""
        return SummedMomentsWithin(self.rows, self.means, self.within)

    @property
    def lost(self) -> tuple[str, ...]:
        """The silos that are not in the sums of exchange 1."""
        return tuple(silo for silo, counted in zip(self.schema.silos, self.counted, strict=True) if not counted)


def start(schema: Schema, structure: Structure) -> Server:
    """The server's state before the exchange, for a learned `structure`.

    For mixed data, the columns are coded: an edge joins all coded columns of its two variables.
    """
    nothing, nobody = np.empty(0), np.zeros(len(schema.silos), np.bool_)
    figures, owners = np.empty((0, len(FIGURES), 2)), coding_of(schema).owners
    if structure.lags:
        weights = unrolled_weights(
            structure.adjacency.astype(np.float64), padded_lagged_weights(structure, structure.lags)
        )
        over_time = coding_of(window_schema(schema, structure.lags)).owners
        windowed = replace(
            schema.in_order(), variables=coded_names(schema), levels={}, rows=schema.windows(structure.lags)
        )
        joined = (weights != 0)[np.ix_(over_time, over_time)]
        return Server(windowed, joined, 0, nothing, np.empty((0, 0)), nobody, figures, owners)
    coded = replace(schema.in_order(), variables=coded_names(schema), levels={}, imputation_model=NO_IMPUTATION)
    joined = structure.adjacency[np.ix_(owners, owners)]
    return Server(coded, joined, 0, nothing, np.empty((0, 0)), nobody, figures, owners)


def moments_packing(d: int) -> Packing:
    """The packing of a silo's moments: its share of the rows, means, second moments."""
    return Packing((*packing(part=(), means=d).blocks, Block("products", (d, d), symmetric=True)))


def build(settings: Diagnosis) -> FederatedAlgorithm[Server, Silo, Broadcast, Summand]:
    """The two exchanges, which start from the state `start(...)`."""
    return sum_each_round(
        open_silo=lambda table, schema, silo, rng: (
            open_windows(table, schema, silo, settings.lags) if settings.lags else open_silo(table, schema, silo, rng)
        ),
        open_server=lambda schema: start(schema, empty_structure(schema.variables)),
        broadcast=lambda server: Broadcast(
            server.rows, server.means, server.within, server.parents, server.counted, server.inflation
        ),
        part=answer,
        aggregate=aggregate if settings.own_figures else aggregate_only,
        converged=lambda server: len(server.figures) > 0,
        server_type=Server,
        broadcast_type=Broadcast,
        max_rounds=1 + settings.own_figures,
        entry_units=lambda schema, request: _units(schema, request, settings.lags),
        needs_secure_sum=settings.masked,
    )


def _units(schema: Schema, request: Broadcast, lags: int) -> FloatArray:
    if request.rows:
        return np.ones(1)
    return moment_units(coded_units(window_schema(schema, lags) if lags else schema))


def open_silo(table: Table, schema: Schema, silo: str, rng: np.random.Generator) -> Silo:
    """The silo with its rows and their moments, with expected values for empty cells."""
    own = about_own_means(table, schema)
    coding, place = coding_of(schema), schema.silos.index(silo)
    first = dict(zip(schema.variables, np.searchsorted(coding.owners, np.arange(len(coding.widths))), strict=True))
    coded = coding.encode(table)
    there = column_summaries(coded).cells > 0 if schema.gaps else np.ones(coding.size, np.bool_)
    discrete = np.array(coding.discrete, np.bool_)[coding.owners]
    return Silo(
        table=coded,
        there=there,
        means=own.mean,
        products=own.products,
        rows=table.shape[0],
        own=own.products / table.shape[0],
        numbers=~discrete,
        labels=np.where(discrete, coding.owners, -1),
        place=place,
        silos=len(schema.silos),
        all_rows=sum(schema.rows.values()),
        variables=coding.size,
        skewed={int(first[name]): one for name, one in schema.skewed.items()},
        ranked=np.array([schema.transforms.get(schema.variables[v]) == NORMAL_SCORES for v in coding.owners]),
        over_time=np.empty((0, 2)),
        times=np.empty(0),
    )


def open_windows(table: Table, schema: Schema, silo: str, lags: int) -> Silo:
    """The silo with the coded windows of its series `table` `[n_rows, d]`, and their moments."""
    found, coding = series_rows(table, schema, silo, lags), coding_of(schema)
    d, discrete = coding.size, np.array(coding.discrete, np.bool_)[coding.owners]
    numbers = np.flatnonzero(~discrete)
    ratios, periods = seasons(found.beginning[:, numbers])
    strongest, (trend, trending) = int(np.argmax(ratios)), _greatest(trend_t_values(found.spaced[:, numbers]))
    names = [schema.variables[v] for v in coding.owners]
    in_passes = len(found.windows) < found.count
    return Silo(
        table=found.windows,
        there=np.asarray(~np.isnan(found.windows).all(axis=0)),
        means=found.means,
        products=found.products,
        rows=found.count,
        own=about_means(found.windows)[1] / len(found.windows) if in_passes else found.products / found.count,
        numbers=np.append(~discrete, np.zeros(lags * d, np.bool_)),
        labels=np.concatenate([np.where(discrete, coding.owners + lag * d, -1) for lag in range(lags + 1)]),
        place=schema.silos.index(silo),
        silos=len(schema.silos),
        all_rows=sum(schema.windows(lags).values()),
        variables=d,
        skewed={},
        ranked=np.tile([schema.transforms.get(name) == NORMAL_SCORES for name in names], lags + 1),
        over_time=np.array([(trend, numbers[int(trending)]), (float(periods[strongest]), numbers[strongest])]),
        times=found.times,
    )


def answer(silo: Silo, request: Broadcast) -> FloatArray:
    """The silo's part of the moments, or its figures from the comparison with the other silos.

    Levels of fewer than three rows in all are not compared, because the comparison would disclose these rows.
    """
    n, (rows, d) = request.rows or silo.all_rows, silo.table.shape
    means, part = silo.means, silo.rows / n
    if not request.rows:
        return moments_packing(d).pack(part=part, means=part * means, products=silo.products / n)
    rare = rare_indicators(silo.labels, request.means, n)
    in_series = len(silo.over_time) > 0
    figures, present = silo_slots(silo.silos, len(SERIES_FIGURES if in_series else FIGURES)), silo.variables
    fallen = np.zeros((0 if in_series else len(influence_edges(request.parents)), 2))
    inside = part if request.counted[silo.place] else 0.0
    inflation = request.inflation * rank_inflation(request.within, request.parents & silo.numbers, silo.ranked)
    if silo.silos > 1 and inside < 1:
        rest_means = (request.means - inside * means) / (1 - inside)
        rest = (request.within - inside * (silo.products / silo.rows)) / (1 - inside)
        apart, compared_means = _distances(silo, request.means, rest_means, rest), silo.there & ~rare
        figures[silo.place, 0] = _greatest(np.where(compared_means, apart, 0.0)[:present])
        in_order = silo.table - means if isinstance(silo.table, np.ndarray) and in_series else None
        parents, compared = request.parents & ~rare[:, None], (rows, n - inside * n)
        gains = _better_by_own(silo.own, rest, parents & silo.numbers, compared, silo.silos, inflation, in_order)
        figures[silo.place, 1] = _greatest(_not_of_few_rows(gains, silo, rest, parents, compared, inflation))
        if not in_series:
            columns, others = np.flatnonzero(silo.numbers & compared_means), n - inside * n
            own_figures = fault_figures(silo.table, (means, silo.own), (rest_means, rest), others, columns)
            figures[silo.place, len(COMMON_FIGURES) :] = own_figures
            known = ~rare[influence_edges(request.parents)].any(axis=1) & (inside > 0)
            fallen[known & (evidence(rest, others, request.parents) <= 0)] = 1, silo.place + 1
    figures[silo.place, 2] = _outlying(silo.table[:, :present] if isinstance(silo.table, np.ndarray) else silo.table)
    changes = np.empty(0)
    if in_series:
        changes, figures[silo.place, len(COMMON_FIGURES) :] = _over_time(silo, request)
    level = CURVATURE_FALSE_ALARMS / silo.silos
    parents = request.parents & silo.numbers
    windowed, numbers = silo.variables if in_series else 0, silo.numbers
    bent = curvature(silo.table, means, request.within, parents, numbers, level, inflation, variables=windowed)
    figures[silo.place, 3] = _greatest(bent)
    gain = part * transform_gain(silo.table, silo.skewed)
    return np.concatenate([figures.ravel(), fallen.ravel(), changes, [gain]])


def _distances(silo: Silo, means: FloatArray, rest_means: FloatArray, rest: FloatArray) -> FloatArray:
    """The distances of the silo's means from the other silos' means, in standard deviations, `[d]`.

    The variance of an indicator is that of all rows, because a level may be rare at the other silos. A level that this
    silo or all others lack is not compared: a level of one silo is a note on the table (`table_notes.py`).
    """
    is_level = silo.labels >= 0
    variances = np.where(is_level, means * (1 - means), np.diag(rest))
    absent = is_level & (np.minimum(rest_means, silo.means) <= ROUNDING)
    return np.asarray(np.where(absent, 0.0, np.abs(silo.means - rest_means) / np.sqrt(np.maximum(variances, 1e-12))))


def _over_time(silo: Silo, request: Broadcast) -> tuple[FloatArray, FloatArray]:
    """The silo's sums of `change.py`, and its figures on trend, season and change, `[3, 2]`."""
    assert isinstance(silo.table, np.ndarray)
    parents, scales = request.parents, np.sqrt(_positive(request.within))
    sums = fluctuations(silo.table, silo.times, parents, silo.variables, scales, request.rows)
    level = CHANGE_FALSE_ALARMS / silo.silos
    own = change_tests(sums, len(silo.table), parents, silo.variables, level, request.within)
    change = (0.0, 0.0)
    if len(own.ratios):
        greatest, at = _greatest(own.ratios)
        change = (greatest, float(children_of(parents, silo.variables)[int(at)]))
    return sums, np.vstack([silo.over_time, [change]])


def _greatest(values: FloatArray) -> tuple[float, float]:
    return float(np.max(values)), float(np.argmax(values))


def _positive(S: FloatArray) -> FloatArray:
    return np.maximum(np.diag(S), 1e-12)


def _better_by_own(
    own: FloatArray,
    rest: FloatArray,
    parents: NDArray[np.bool_],
    rows: tuple[float, float],
    silos: int,
    rank_inflation: FloatArray | float = 1.0,
    in_order: FloatArray | None = None,
) -> FloatArray:
    """By variable, the gain of the silo's own weights over the weights of the other silos, `[d]`.

    The gain is the logarithm of the ratio of the residual variances on the silo's rows. `rows` has the numbers of rows
    of the silo and of the other silos. With equal weights, n times the gain of p own weights is about χ²_p, and larger
    if the other silos have few rows. A gain that is not significant over all variables and silos counts as zero. The
    bound is that of Laurent & Massart 2000, Lemma 1, times `rank_inflation` `[d]`. From significant gains, the
    expectation is subtracted. The result is also zero for a variable that has no parents or is constant in this silo.

    In time series, `in_order` has the silo's windows about their means `[n_rows, d]`. If residuals are autocorrelated,
    own weights gain more by chance (`long_run_ratio`).
    """
    by_ranks = np.broadcast_to(rank_inflation, len(own))
    gains = np.zeros(len(own))
    of_silo, of_others = rows
    log_odds = np.log(silos * len(own) / FALSE_ALARMS)
    for j in np.flatnonzero(parents.any(axis=0)):
        pa = np.flatnonzero(parents[:, j])
        p, inflation = len(pa), by_ranks[j] * (1 + of_silo / max(of_others, 1.0))
        if p + 2 >= min(rows) or own[j, j] <= 1e-12 * rest[j, j]:
            continue
        fits = [np.linalg.lstsq(S[np.ix_(pa, pa)], S[pa, j], rcond=None)[0] for S in (own, rest)]
        residual = [own[j, j] - 2 * w @ own[pa, j] + w @ own[np.ix_(pa, pa)] @ w for w in fits]
        if in_order is not None:
            errors = in_order[:, j] - in_order[:, pa] @ fits[0]
            inflation *= long_run_ratio(np.nan_to_num(errors[:, None] * in_order[:, pa]))
        smallest = 1e-9 * max(own[j, j], 1e-300)
        gain = np.log(max(residual[1], smallest) / max(residual[0], smallest))
        by_chance = inflation * (p + 2 * np.sqrt(p * log_odds) + 2 * log_odds) / (min(rows) - p - 1)
        gains[j] = gain - p / of_silo if gain > by_chance else 0.0
    return gains


def _not_of_few_rows(
    gains: FloatArray,
    silo: Silo,
    rest: FloatArray,
    parents: NDArray[np.bool_],
    rows: tuple[float, float],
    rank_inflation: FloatArray,
) -> FloatArray:
    """The `gains` `[d]`, with zero in place of gains that are not significant for every error distribution.

    With heavy tails, a single row with extreme parents can determine a silo's own weights. So the products of the
    parents and the residuals under the weights of the other silos are tested. The variances of these products come from
    the residuals under the silo's own weights, enlarged for rows of high leverage (HC4; Cribari-Neto 2004).
    """
    tested, own = [], silo.own
    for j in map(int, np.flatnonzero(gains > 0)):
        pa = np.flatnonzero(parents[:, j] & silo.numbers)
        square = np.ix_(pa, pa)
        both = np.column_stack([np.linalg.lstsq(S[square], S[pa, j], rcond=None)[0] for S in (rest, own)])
        tested.append((j, pa, both, np.linalg.pinv(rows[0] * own[square], rcond=1e-9, hermitian=True)))
    if not tested:
        return gains

    means = silo.means

    def sums(chunk: FloatArray) -> FloatArray:
        z, every = chunk - means, []
        for j, pa, weights, inverse in tested:
            x = z[:, pa]
            known = ~np.isnan(x).any(axis=1) & ~np.isnan(z[:, j])
            x, residuals = x[known], z[known, j, None] - x[known] @ weights
            leverage = np.minimum(np.einsum("ij,jk,ik->i", x, inverse, x) + 1 / rows[0], 1 - 1e-6)
            enlarged = residuals[:, 1] / (1 - leverage) ** (np.minimum(4.0, leverage * rows[0] / (len(pa) + 1)) / 2)
            scores = x * enlarged[:, None]
            every += [x.T @ residuals[:, 0], (scores.T @ scores).ravel()]
        return np.concatenate(every)

    total, begin, kept = sum_over_chunks(silo.table, sums), 0, gains.copy()
    level, inflation = FALSE_ALARMS / (silo.silos * len(gains)), 1 + rows[0] / max(rows[1], 1.0)
    for j, pa, *_ in tested:
        p = len(pa)
        statistic = score_statistic(total[begin : begin + p], total[begin + p : begin + p + p * p])
        begin += p + p * p
        # The squares of slow parents amount to few independent numbers, so the variances of the products are
        # imprecise.
        windows = effective_windows(rows[0], rest, pa, silo.variables)
        bound = hotelling_bound(p, windows, level) if len(silo.times) else chi_square_bound(p, level)
        if statistic <= rank_inflation[j] * inflation * bound:
            kept[j] = 0.0
    return kept


def _outlying(table: Table) -> tuple[float, float]:
    """The share of outliers among all cells, and the column with most of them.

    A cell is far if its distance from the median exceeds `OUTLIER_SPREADS` times the distance of the 10 % quantile on
    its side. By this definition, the tail of a skewed column, such as an exponential column, has almost no far cells. A
    heavy tail, such as the tail of t with 3 degrees of freedom, has some far cells, but many more beyond half of this
    distance, where wrong cells are rare. So `TAIL_SHARE` times the number of cells in between is subtracted.
    """
    below, centre, above = _quantiles(thin_rows(table, MEDIAN_ROWS))
    spread = (below < centre) & (centre < above)

    def beyond(rows: FloatArray, spreads: float) -> FloatArray:
        low, high = centre - spreads * (centre - below), centre + spreads * (above - centre)
        return np.asarray((((rows < low) | (rows > high)) & spread).sum(axis=0), np.float64)

    far, near = sum_over_chunks(
        table, lambda rows: np.stack([beyond(rows, OUTLIER_SPREADS), beyond(rows, OUTLIER_SPREADS / 2)])
    )
    excess = max(float((far - TAIL_SHARE * (near - far)).sum()), 0.0)
    return excess / (table.shape[0] * len(far)), float(np.argmax(far))


def _quantiles(X: FloatArray) -> FloatArray:
    """The quantiles .1, .5, .9 of each column's cells that are not NaN, `[3, d]`; 0 for a column of NaN only."""
    if np.isnan(X.sum()):
        return np.asarray(np.nanquantile(np.where(np.isnan(X).all(axis=0), 0.0, X), (0.1, 0.5, 0.9), axis=0))
    return np.asarray(np.quantile(X, (0.1, 0.5, 0.9), axis=0))


def aggregate_only(server: Server, replies: Replies[Summand]) -> Server:
    """The state with the sums, and without a figure of any silo."""
    figures = SERIES_FIGURES if len(server.schema.variables) < len(server.parents) else FIGURES
    return replace(aggregate(server, replies), figures=no_figures(len(server.schema.silos), len(figures)))


def aggregate(server: Server, replies: Replies[Summand]) -> Server:
    """The state with the sums, or with the silos' figures; raises `BadInput` for sums that silos cannot have sent."""
    schema, d = server.schema, len(server.parents)
    if not len(server.means):
        sums = moments_packing(d).unpack(replies.total)
        part = float(sums["part"])
        rows = sum(schema.rows[silo] for silo in replies.silos)
        require_declared_rows(part * sum(schema.rows.values()), rows)
        require_second_moments(sums["products"])
        means = sums["means"] / part
        counted = np.array([silo in replies.silos for silo in schema.silos])
        return replace(server, rows=rows, means=means, within=sums["products"] / part, counted=counted)
    answered = sum(schema.rows[silo] for silo in replies.silos)
    gain, changes = float(replies.total[-1]) * server.rows / answered, NO_CHANGES
    slots = silo_slots(len(schema.silos), len(FIGURES)).size
    variables, fallen = len(server.schema.variables), np.empty((0, 2))
    if variables < d:
        slots = silo_slots(len(schema.silos), len(SERIES_FIGURES)).size
        tested, level = replies.total[slots:-1], CHANGE_FALSE_ALARMS
        changes = change_tests(tested, answered, server.parents, variables, level, server.within)
    else:
        fallen = replies.total[slots:-1].reshape(-1, 2)
    figures = by_silo(replies.total[:slots], replies, schema)
    if variables == d:
        require_scales_of_a_sum(figures[:, len(COMMON_FIGURES) :])
    return replace(server, figures=figures, changes=changes, transform_gain=gain, fallen=fallen)
