"""Survival outcomes: piecewise-exponential nodes, whose hazards are constant within intervals of follow-up.

A row is under observation until the time t; δ is 1 if the event ended it, and 0 if it was censored. With the coded
covariates x, the hazard in interval j is λ_j exp(xᵀβ) (Holford 1980, "The analysis of rates and of survivorship using
log-linear models"; Friedman 1982, "Piecewise exponential models for survival data with covariates"). Let e_j be the
time that a row spends in interval j. Every silo p has hazards λ_pj of its own, which it does not send. It profiles them
out: the greatest log-likelihood over λ_pj is, up to a constant,

    L_p(β) = Σ_rows δ xᵀβ − Σ_j d_pj ln E_pj(β),   E_pj(β) = Σ_rows e_j exp(xᵀβ),

with d_pj the silo's events in interval j. L = Σ_p L_p is a sum over the silos, with

    gradient    Σ_rows δ x − Σ_pj d_pj x̄_pj,        minus Hessian    Σ_pj d_pj Cov_pj(x),

where x̄_pj and Cov_pj are the mean and covariance of x with the weights e_j exp(xᵀβ). As the intervals become short,
this becomes the partial likelihood of Cox (1972) with strata by silo.

Selection of parents: L(β) is close to its quadratic approximation at the current β, which is known for all candidates
at once, also for those whose coefficients are zero; there the approximation gives the score test. So each round has one
sum over all coded candidates. The coordinator finds the candidates with the best BIC of the approximation, by adding
and removing one variable at a time, and sends its maximum as the next β. When neither candidates nor coefficients
change, no addition (by the score test) or removal (by the Wald test) of a variable improves the BIC, in which the
sample size is the number of events (Volinsky & Raftery 2000, "Bayesian information criterion for censored survival
models"). If rows depend on each other within clusters, the likelihood counts the share of independent rows.

Round 1 sums histograms of times, with and without event, on a public grid that is fixed in advance. From them follow
the limits of at most `INTERVALS` intervals with about as many events each, and no fewer than `MIN_COUNT`. After the
rounds of Newton's method, one more sum gives the hazards λ_j = Σ_p d_pj / Σ_p E_pj(β) common to the silos, at the mean
of x.

What leaves a silo, always masked if there are several: two histograms, and sums of x, x² and δ x; in four to eight
rounds 3 + P + P(P + 1)/2 numbers for P coded candidates; then two numbers for each interval. Rows with an empty cell in
the outcome or a candidate are left out.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import log

import numpy as np
from numpy.typing import NDArray

from ..core.protocol import FederatedAlgorithm, Replies, Summand, sum_each_round
from ..core.schema import FloatArray, Schema
from ..core.settings import Settings
from ..privacy.disclosure_control import GRID as COUNT_GRID
from ..privacy.disclosure_control import MIN_COUNT
from ..statistics.coding import coded_units, coding_of
from ..statistics.packing import Block, Packing, packing
from .survival_node import SurvivalNode, Term

INTERVALS = 10
"""number of intervals of follow-up, if there are enough events"""
TIMES: FloatArray = 2.0 ** (np.arange(-20 * 16, 24 * 16 + 1) / 16)
"""the public grid of times, in the unit of the column: 16 points for each doubling"""
MAX_ROUNDS = 60
"""maximum number of sums"""
MAX_FINAL_STEP = 1e-6
"""maximum change of a coefficient, in its standard errors, in the step after which a fit has converged"""
ROUNDING = 1e-8
"""maximum relative fall of the likelihood that rounding may cause"""
COLLINEAR = 1e-8
"""minimum share of a coded column's curvature that the other parents do not explain"""
MIN_ROWS = 10
"""minimum number of rows with a level, and without it, for a coefficient of its own"""


@dataclass(frozen=True)
class Survival(Settings):
    """Settings of the exchange (none)."""


@dataclass(frozen=True)
class Silo:
    """A silo's rows `[n_rows, d]`, and the schema."""

    table: FloatArray
    schema: Schema


@dataclass(frozen=True)
class Broadcast:
    """The outcome's columns and the candidates; then the limits of the intervals and the current coefficients."""

    time: int
    event: int
    candidates: NDArray[np.bool_]
    """the variables that may be parents, `[d]`"""
    limits: FloatArray
    """the ends of the intervals, `[J]`; empty in the first round"""
    centre: FloatArray
    """the mean of each coded candidate over all rows, `[P]`, from the first round"""
    coefficients: FloatArray
    """`[P]`, of the coded candidates"""
    hazards: bool = False
    """whether hazards are requested, instead of sums of Newton's method"""


def _zeros(*shape: int) -> FloatArray:
    return np.zeros(shape)


@dataclass(frozen=True)
class Server:
    """The request, what the first sum has found, and the state of the selection."""

    schema: Schema
    outcome: str
    request: Broadcast
    required: NDArray[np.bool_]
    """the candidates that are parents in any case, `[d]`"""
    chooses: bool
    """whether parents are selected from the other candidates"""
    rows: int = 0
    events: int = 0
    silos: tuple[str, ...] = ()
    """the silos in the last sum"""
    spreads: FloatArray = field(default_factory=lambda: _zeros(0))
    """the standard deviation of each coded candidate, `[P]`"""
    usable: NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, np.bool_))
    """the coded candidates with enough rows and events for a coefficient, `[P]`"""
    parents: NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, np.bool_))
    """the selected variables, `[d]`"""
    visited: NDArray[np.bool_] = field(default_factory=lambda: np.zeros((0, 0), np.bool_))
    """the selections so far, one a row; if one returns, it is kept"""
    accepted: FloatArray = field(default_factory=lambda: _zeros(0))
    """the last coefficients that did not lower the likelihood, `[P]`"""
    likelihood: float = -np.inf
    """the log-likelihood at the accepted coefficients"""
    curvature: FloatArray = field(default_factory=lambda: _zeros(0, 0))
    """minus the Hessian at the last coefficients, `[P, P]`"""
    hazard_sums: FloatArray = field(default_factory=lambda: _zeros(0))
    """the events and then the exposures of the intervals, `[2J]`, at the last coefficients"""
    fault: str = ""
    """why there is no fit"""


def start(
    schema: Schema,
    outcome: str,
    pair: tuple[str, str],
    candidates: Sequence[str],
    required: Sequence[str] | None = None,
) -> Server:
    """The server's state before the exchange for `outcome`, whose columns of times and events are `pair`.

    `schema` has these columns as variables. Parents are selected from the `candidates`, of which the `required` ones
    are parents in any case; with None, all candidates are parents.
    """
    among = np.array([name in candidates for name in schema.variables])
    needed = among if required is None else np.array([name in required for name in schema.variables])
    width = int(among[coding_of(schema).owners].sum())
    places = [schema.variables.index(name) for name in pair]
    request = Broadcast(places[0], places[1], among, _zeros(0), _zeros(width), _zeros(width))
    return Server(schema, outcome, request, needed, required is not None)


def build(settings: Survival) -> FederatedAlgorithm[Server, Silo, Broadcast, Summand]:
    """The exchange, which begins in the state `start(...)`."""
    return sum_each_round(
        open_silo=lambda table, schema, silo, rng: Silo(table, schema),
        open_server=lambda schema: start(schema, "", (schema.variables[0],) * 2, ()),
        broadcast=lambda server: server.request,
        part=part,
        aggregate=aggregate,
        converged=lambda server: bool(server.fault) or len(server.hazard_sums) > 0,
        server_type=Server,
        broadcast_type=Broadcast,
        max_rounds=MAX_ROUNDS,
        entry_units=_units,
        needs_secure_sum=True,
    )


def _layout(request: Broadcast) -> Packing:
    """The layout of the sums that `request` asks for."""
    p, cells = len(request.coefficients), len(TIMES) + 1
    if not len(request.limits):
        return packing(ended=cells, censored=cells, sums=p, squares=p, with_event=p)
    if request.hazards:
        return packing(events=len(request.limits), exposure=len(request.limits))
    return Packing((Block("likelihood", ()), Block("gradient", (p,)), Block("curvature", (p, p), symmetric=True)))


def _coded(schema: Schema, request: Broadcast) -> NDArray[np.int64]:
    """The coded columns of the candidates, among those of all variables."""
    return np.flatnonzero(request.candidates[coding_of(schema).owners])


def _units(schema: Schema, request: Broadcast) -> FloatArray:
    """The units of a reply, from the units of the columns."""
    x, layout = coded_units(schema)[_coded(schema, request)], _layout(request)
    if not len(request.limits):
        cells = np.ones(len(TIMES) + 1)
        return layout.pack(ended=cells, censored=cells, sums=x, squares=x**2, with_event=x)
    if request.hazards:
        each = np.ones(len(request.limits))
        return layout.pack(events=each, exposure=schema.units[request.time] * each)
    return layout.pack(likelihood=1.0, gradient=x, curvature=np.outer(x, x))


def exposures(times: FloatArray, limits: FloatArray) -> FloatArray:
    """The time that each row with one of the `times` `[n]` spends in each interval that ends at `limits`, `[n, J]`."""
    begins = np.append(0.0, limits[:-1])
    return np.asarray(np.clip(times[:, None] - begins, 0.0, limits - begins))


def part(silo: Silo, request: Broadcast) -> FloatArray:
    """The silo's part of the sums, divided by the number of all rows."""
    schema, layout = silo.schema, _layout(request)
    chosen = np.flatnonzero(request.candidates)
    table = silo.table[:, [request.time, request.event, *chosen]].astype(np.float64)
    empty = np.isnan(table) | ((table < 0) & schema.discrete[[request.time, request.event, *chosen]])
    table = table[~empty.any(axis=1)]
    times, events, x = table[:, 0], table[:, 1], coding_of(schema).subset(chosen.tolist()).rows(table[:, 2:])
    x = x - request.centre
    cells = np.searchsorted(TIMES if not len(request.limits) else request.limits, times, side="left")
    if not len(request.limits):
        ended, censored = (np.bincount(cells[events == one], minlength=len(TIMES) + 1) for one in (1, 0))
        sums = {"sums": x.sum(axis=0), "squares": (x**2).sum(axis=0), "with_event": events @ x}
        return layout.pack(ended=ended, censored=censored, **sums) / sum(schema.rows.values())
    ended = np.bincount(cells[events == 1], minlength=len(request.limits))
    linear = x @ request.coefficients
    highest = float(linear.max(initial=0.0))
    risk = exposures(times, request.limits) * np.exp(linear - highest)[:, None]
    total = risk.sum(axis=0)
    if request.hazards:
        return layout.pack(events=ended, exposure=total * np.exp(highest)) / sum(schema.rows.values())
    positive = np.where(total > 0, total, 1.0)  # an interval that no row reaches has no events either
    weights, means = risk @ (ended / positive), (risk.T @ x) / positive[:, None]
    sums = {
        "likelihood": np.asarray(events @ linear - ended @ (np.log(positive) + highest)),
        "gradient": (events - weights) @ x,
        "curvature": (x * weights[:, None]).T @ x - (means * ended[:, None]).T @ means,
    }
    return layout.pack(**sums) / sum(schema.rows.values())


def aggregate(server: Server, replies: Replies[Summand]) -> Server:
    """The state after the histograms, after a step of the selection, or with the hazards."""
    total = replies.total * sum(server.schema.rows.values())
    sums = _layout(server.request).unpack(total)
    if replies.silos != server.silos:
        server = replace(server, silos=replies.silos, likelihood=-np.inf)
    if not len(server.request.limits):
        return _after_histograms(server, sums)
    if server.request.hazards:
        return replace(server, hazard_sums=total)
    return _after_step(server, sums)


def _after_histograms(server: Server, sums: dict[str, FloatArray]) -> Server:
    """The state with the intervals and the usable columns, or with the reason why there can be no fit."""
    ended, censored = (np.rint(sums[name]).astype(np.int64) for name in ("ended", "censored"))
    events, rows = int(ended.sum()), int(ended.sum() + censored.sum())
    server = replace(server, rows=rows, events=events)
    if events < 2 * MIN_COUNT or rows == events == 0:
        return replace(server, fault=f"fewer than {2 * MIN_COUNT} rows have the event")
    if ended[-1] or censored[-1]:
        return replace(server, fault=f"some times exceed {TIMES[-1]:.3g}: use a larger unit")
    means = sums["sums"] / rows
    variances = np.maximum(sums["squares"] / rows - means**2, 0.0)
    coding = coding_of(server.schema)
    owners = coding.owners[_coded(server.schema, server.request)]
    usable = variances > ROUNDING * (variances + means**2)
    for v in np.flatnonzero(server.request.candidates & np.array(coding.discrete)):
        block = np.flatnonzero(owners == v)
        usable[block] &= _frequent(np.rint(sums["sums"][block]), np.rint(sums["with_event"][block]), rows, events)
    zero = np.zeros(len(means))
    request = replace(server.request, limits=limits_of(ended, ended + censored), centre=means)
    parents = server.required & server.request.candidates
    return replace(
        server,
        request=request,
        usable=usable,
        spreads=np.sqrt(variances),
        accepted=zero,
        parents=parents,
        visited=np.zeros((0, len(parents)), np.bool_),
    )


def _frequent(rows: FloatArray, with_event: FloatArray, all_rows: int, events: int) -> NDArray[np.bool_]:
    """Whether each level but the first has a coefficient of its own, given its `rows` and its rows `with_event`.

    A level without a coefficient is merged with the first level; if that is rare, it is merged with the largest one.
    """
    frequent = (rows >= MIN_ROWS) & (with_event >= MIN_COUNT)
    merged = ~frequent
    first_rows = all_rows - rows.sum() + rows[merged].sum()
    first_events = events - with_event.sum() + with_event[merged].sum()
    if frequent.any() and (first_rows < MIN_ROWS or first_events < MIN_COUNT):
        frequent[int(np.argmax(np.where(frequent, rows, -1.0)))] = False
    return np.asarray(frequent)


def limits_of(ended: NDArray[np.int64], rows: NDArray[np.int64]) -> FloatArray:
    """The ends of the intervals, from the numbers of rows with event and of all `rows` in the cells of the grid.

    Each interval has about as many events as the others, and at least `MIN_COUNT`; the last one ends with follow-up.
    """
    before, events = np.cumsum(ended), int(ended.sum())
    cuts: list[int] = []
    for share in np.arange(1, INTERVALS) / INTERVALS:
        cut = int(np.argmin(np.abs(before - share * events)))
        reached = before[cuts[-1]] if cuts else 0
        if before[cut] - reached >= MIN_COUNT and events - before[cut] >= MIN_COUNT:
            cuts.append(cut)
    last = int(np.flatnonzero(rows)[-1])
    return np.asarray(TIMES[[*cuts, last]])


def _after_step(server: Server, sums: dict[str, FloatArray]) -> Server:
    """The state with the best parents, and their coefficients, by the quadratic approximation at the last ones."""
    request, likelihood = server.request, float(sums["likelihood"])
    b, H = request.coefficients, sums["curvature"]
    owners = coding_of(server.schema).owners[_coded(server.schema, request)]
    independent = server.schema.independent_share
    penalty = 0.5 * log(max(server.events * independent, 1)) / independent
    given_up = penalty * float(((server.accepted != 0) & (b == 0)).sum())
    if likelihood < server.likelihood - given_up - ROUNDING * (1 + abs(server.likelihood)):
        return replace(server, request=replace(request, coefficients=0.5 * (b + server.accepted)))
    server = replace(server, accepted=b, likelihood=likelihood, curvature=H)
    if not np.isfinite(H).all():
        return replace(server, fault="its likelihood has no maximum")
    quadratic = Quadratic(sums["gradient"] + H @ b, H, owners, server.usable)
    parents = server.parents
    if server.chooses:
        parents = quadratic.best_parents(parents, server.request.candidates & ~server.required, penalty)
        returns = bool((server.visited == parents).all(axis=1).any()) and bool((parents != server.parents).any())
        visited = np.vstack([server.visited, parents])
        server = replace(server, parents=parents, visited=visited, chooses=not returns)
    further = quadratic.maximum(parents)
    error_free = np.abs(further - b) * np.sqrt(np.maximum(np.diag(H), 0.0)) <= MAX_FINAL_STEP
    finished = bool(error_free.all())
    return replace(server, request=replace(request, coefficients=b if finished else further, hazards=finished))


@dataclass(frozen=True)
class Quadratic:
    """A quadratic approximation hᵀb − ½ bᵀHb of a log-likelihood in the coefficients b of P coded columns."""

    h: FloatArray
    H: FloatArray
    owners: NDArray[np.int64]
    """the variable of each column, `[P]`"""
    usable: NDArray[np.bool_]
    """the columns whose coefficients are not fixed at zero, `[P]`"""

    def columns(self, parents: NDArray[np.bool_]) -> NDArray[np.int64]:
        """The usable columns of the `parents` `[d]` that are not linear combinations of earlier ones."""
        kept: list[int] = []
        for k in np.flatnonzero(parents[self.owners] & self.usable).tolist():
            own = self.H[k, k]
            if kept and own > 0:
                across = self.H[np.ix_(kept, [k])][:, 0]
                own -= float(across @ np.linalg.solve(self.H[np.ix_(kept, kept)], across))
            if own > COLLINEAR * self.H[k, k]:
                kept.append(k)
        return np.array(kept, np.int64)

    def maximum(self, parents: NDArray[np.bool_]) -> FloatArray:
        """The coefficients `[P]` at the maximum, with those of other variables fixed at zero."""
        found, kept = np.zeros(len(self.h)), self.columns(parents)
        found[kept] = np.linalg.solve(self.H[np.ix_(kept, kept)], self.h[kept])
        return found

    def best_parents(self, parents: NDArray[np.bool_], free: NDArray[np.bool_], penalty: float) -> NDArray[np.bool_]:
        """The parents `[d]` after adding or removing the best one of the `free` variables as long as the BIC improves.

        `penalty` is subtracted from the log-likelihood for each coefficient.
        """

        def score(chosen: NDArray[np.bool_]) -> float:
            b = self.maximum(chosen)
            return 0.5 * float(self.h @ b) - penalty * int(np.count_nonzero(b))

        best, found = score(parents), parents
        while True:
            trials = [found ^ (np.arange(len(found)) == v) for v in np.flatnonzero(free)]
            scores = [score(one) for one in trials]
            if not scores or max(scores) <= best + ROUNDING:
                return found
            best, found = max(scores), trials[int(np.argmax(scores))]


def node(server: Server) -> SurvivalNode | str:
    """The node of a finished exchange, or the reason why there is none."""
    if server.fault or not len(server.hazard_sums):
        return server.fault or "the fit did not converge"
    schema, request = server.schema, server.request
    coding = coding_of(schema)
    coded = _coded(schema, request)
    owners = coding.owners[coded]
    kept = Quadratic(request.coefficients, server.curvature, owners, server.usable).columns(server.parents)
    covariance = np.linalg.inv(server.curvature[np.ix_(kept, kept)]) / schema.independent_share
    terms = []
    for k in kept.tolist():
        name = schema.variables[owners[k]]
        levels = schema.levels.get(name, ("", ""))
        level = int(np.flatnonzero(coding.blocks[owners[k]] == coded[k])[0]) + 1
        numbers = (request.coefficients[k], request.centre[k], server.spreads[k])
        terms.append(Term(name, levels[level], *map(float, numbers)))
    events, exposure = np.split(server.hazard_sums, 2)
    return SurvivalNode(
        outcome=server.outcome,
        time=schema.variables[request.time],
        event=schema.variables[request.event],
        parents=tuple(schema.variables[v] for v in np.flatnonzero(server.parents)),
        levels={name: schema.levels[name] for name in {one.variable for one in terms} & schema.levels.keys()},
        terms=tuple(terms),
        covariance=tuple(tuple(map(float, row)) for row in covariance),
        limits=tuple(map(float, request.limits)),
        hazards=tuple(map(float, events / exposure)),
        interval_events=tuple(COUNT_GRID * round(float(one) / COUNT_GRID) for one in events),
        events=COUNT_GRID * round(server.events / COUNT_GRID),
        rows=server.rows,
        silos=len(server.silos),
        independent_share=schema.independent_share,
    )
