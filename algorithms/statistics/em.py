"""Empty cells: the covariance of numbers by EM over the silos, and draws for labels by a Gibbs sampler.

EM over the silos (ours), before a run on numbers with empty cells. If values are missing at random, leaving out rows
wastes most of them, and pairwise covariances need not be positive definite; maximum likelihood has neither problem.
Exchange 1 adds up the products of the pairs of cells that are both known, and their numbers; every further one the
second moments that each silo expects under the covariance so far. Only sums of D(D + 1)/2 numbers are needed; they are
masked if the run is. EM ends when no direction's variance changes by more than `tolerance`: if columns nearly determine
each other, edges rest on directions of little variance. For the price of an edge, the number of rows is the mean over
all pairs of the rows in which both cells are known.

The E-step for a Gaussian with empty cells (Dempster, Laird, Rubin 1977; Little, Rubin 2002, "Statistical Analysis with
Missing Data", §11.2): of a row x with known columns o, with precision K = S_oo⁻¹ of these (zero elsewhere), the
deviations from the mean μ have expectation S K (x − μ) and covariance S − S K S. So all rows together give

    n S + S (Z − Σ K) S,   Z = Σ K (x − μ)(x − μ)ᵀ K,

and μ is the silo's own maximum-likelihood mean given S, the solution of (Σ K) μ = Σ K x. It never leaves the silo, so a
reply depends on S and the silo's rows alone. Rows with the same empty cells share K and are taken together: O(D³) for
each such pattern and O(D²) for each row.

Steps are accelerated, without which EM takes two to ten times as many: Anderson acceleration of a fixed-point iteration
over covariances (Walker, Ni 2011). The next point is the mixture of the last images whose residuals cancel best, if it
is a covariance near the last one. Residuals are measured in the units of the last image, L⁻¹ (F(S) − S) L⁻ᵀ with
F(S) = L Lᵀ, so the scale of a column and nearly equal columns make no difference. Mixtures mislead far from the fixed
point: plain steps lead there, until a step changes no direction's variance by more than `RESTART_CHANGE`.

Empty cells of labels are drawn from a Bayesian network that all silos have estimated together (Geman, Geman 1984 for
the sampler; Celeux, Diebolt 1985 for its use in a stochastic EM). Every empty cell is first drawn given its parents,
and then `SWEEPS` times given all other cells of its row: P(x_v | the rest) is proportional to the probability of v
times those of its children. Draws come from the silo's own generator and stay there: a resumed run draws the same.
"""

from dataclasses import dataclass, field, replace

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ..core.protocol import FederatedAlgorithm, Replies, only_field
from ..core.schema import FloatArray, ImputationModel, Schema
from ..errors import BadInput, require
from ..graphs.dag import topological_order
from ..graphs.structure import Structure, no_edges
from .coding import Coding, coded_units, coding_of
from .moments import Table, about_means, centred_moments, chunks, column_summaries, pooled_packing, product_units
from .packing import from_triangle, triangle

MEMORY = 4
"""number of points that are mixed"""
RESTART_CHANGE = 0.3
"""largest relative change of a variance, in any direction, below which mixtures begin"""
TRUSTED = 10.0
"""largest factor between a mixture and the last image, in any direction"""
RIDGE = 1e-10


@dataclass(frozen=True)
class Iteration:
    """The point to evaluate next `[D, D]`, the last points and their images, and how far the last step went."""

    point: FloatArray
    points: FloatArray = field(default_factory=lambda: np.empty((0, 0, 0)))
    images: FloatArray = field(default_factory=lambda: np.empty((0, 0, 0)))
    change: float = np.inf
    """greatest relative change of a variance, in any direction"""


def anderson_step(iteration: Iteration, image: FloatArray) -> Iteration:
    """The iteration after the `image` of its point `[D, D]`, positive definite."""
    before = np.linalg.inv(np.linalg.cholesky(iteration.point))
    change = float(np.abs(np.linalg.eigvalsh(before @ image @ before.T) - 1).max())
    if change > RESTART_CHANGE:
        return Iteration(image, change=change)
    points, images = (
        np.concatenate([old.reshape(-1, *image.shape), new[None]])[-MEMORY:]
        for old, new in ((iteration.points, iteration.point), (iteration.images, image))
    )
    return replace(iteration, point=_mixed(points, images), points=points, images=images, change=change)


def _mixed(points: FloatArray, images: FloatArray) -> FloatArray:
    """The mixture of `images` whose residuals cancel best, or the last image if that is too far from it."""
    last = images[-1]
    units = np.linalg.inv(np.linalg.cholesky(last))
    residuals = (units @ (images - points) @ units.T).reshape(len(points), -1)
    gram = residuals @ residuals.T
    gram += RIDGE * max(np.trace(gram), 1e-300) * np.eye(len(gram))
    shares = np.linalg.solve(gram, np.ones(len(gram)))
    mixed = np.tensordot(shares / shares.sum(), images, axes=1)
    within = np.linalg.eigvalsh(units @ mixed @ units.T)
    return np.asarray(mixed if within[0] > 1 / TRUSTED and within[-1] < TRUSTED else last)


@dataclass(frozen=True)
class Expected:
    """Expected moments of a silo's rows: their mean `[D]`, and second moments about it `[D, D]`, summed."""

    mean: FloatArray
    products: FloatArray


@dataclass(frozen=True)
class Patterns:
    """Coded rows `[n_rows, D]`, zero where a cell is empty, those with the same empty cells one after another."""

    rows: FloatArray
    first: NDArray[np.int64]
    """where each pattern begins, and the end, `[n_patterns + 1]`"""
    known: NDArray[np.bool_]
    """which cells are known in each pattern, `[n_patterns, D]`"""


def patterns(coded: FloatArray) -> Patterns:
    """The rows of `coded` `[n_rows, D]`, grouped by their empty cells."""
    known = ~np.isnan(coded)
    packed = np.packbits(known, axis=1)
    order = np.lexsort(packed.T)
    packed = packed[order]
    begins = np.flatnonzero(np.concatenate([[True], (packed[1:] != packed[:-1]).any(axis=1)]))
    rows = np.where(known, coded, 0.0)[order]
    return Patterns(rows, np.append(begins, len(rows)), known[order[begins]])


def about_own_means(table: Table, schema: Schema) -> Expected:
    """The means of the coded `table` `[n_rows, d]` and its second moments about them.

    With empty cells these are expected ones, which need the `schema.imputation_model` of an EM run.
    """
    coding = coding_of(schema)
    if schema.gaps:
        return expected(table, coding, schema.imputation_model.covariance)
    return Expected(*about_means(coding.coded(table)))


def own_moments(table: Table, schema: Schema, silo: str) -> FloatArray:
    """`centred_moments` of the coded `table` `[n_rows, d]`, or those expected where cells are empty.

    Rows then count as the effective rows of `schema.imputation_model`.
    """
    n, coding = table.shape[0], coding_of(schema)
    lengths = schema.stretches.get(silo, (n,))
    if not schema.gaps:
        return centred_moments(coding.coded(table), lengths)
    total = np.zeros((coding.size, coding.size))
    for part in np.split(table, np.cumsum(lengths)[:-1]) if isinstance(table, np.ndarray) else (table,):
        total += expected(part, coding, schema.imputation_model.covariance).products
    share = schema.imputation_model.rows / sum(schema.rows.values())
    rows = share * (n - len(lengths))
    return pooled_packing(coding.size).pack(rows=rows, sums=np.zeros(coding.size), products=share * total)


def expected(table: Table, coding: Coding, S: FloatArray) -> Expected:
    """The expected moments of the rows of `table` `[n_rows, d]` with covariance `S` `[D, D]`.

    Raises `ValueError` if S is unknown: a mistake of the program, not of the user.
    """
    D = coding.size
    if len(S) != D:
        raise ValueError("rows with empty cells have no moments before EM has estimated their covariance")
    scale = np.sqrt(np.diag(S))
    R = S / np.outer(scale, scale)
    precision, weighted, n = np.zeros((D, D)), np.zeros(D), 0
    for rows in chunks(table):
        part = patterns(coding.rows(rows) / scale)
        _weigh(part.rows, part.first, part.known, R, precision, weighted)
        n += len(rows)
    mean = np.linalg.lstsq(precision, weighted)[0]
    excess = np.zeros((D, D))
    for rows in chunks(table):
        part = patterns(coding.rows(rows) / scale)
        _exceed(part.rows, part.first, part.known, R, mean, excess)
    return Expected(np.asarray(mean * scale, np.float64), (n * R + R @ excess @ R) * np.outer(scale, scale))


@njit(cache=True)
def _precision(R, known):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """The inverse of the rows and columns `known` of R."""
    k = len(known)
    own = np.empty((k, k))
    for a in range(k):
        for b in range(k):
            own[a, b] = R[known[a], known[b]]
    return np.linalg.inv(own)


@njit(cache=True)
def _weigh(rows, first, known, R, precision, weighted):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Add Σ K to `precision` and Σ K x to `weighted`."""
    for p in range(len(known)):
        there = np.flatnonzero(known[p])
        n = first[p + 1] - first[p]
        K = _precision(R, there)
        for a in range(len(there)):
            total = 0.0
            for r in range(first[p], first[p + 1]):
                total += rows[r, there[a]]
            for b in range(len(there)):
                precision[there[b], there[a]] += n * K[b, a]
                weighted[there[b]] += K[b, a] * total


@njit(cache=True)
def _exceed(rows, first, known, R, mean, excess):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Add Z − Σ K to `excess`."""
    for p in range(len(known)):
        there = np.flatnonzero(known[p])
        k = len(there)
        K, T, y = _precision(R, there), np.zeros((k, k)), np.empty(k)
        for r in range(first[p], first[p + 1]):
            for a in range(k):
                y[a] = rows[r, there[a]] - mean[there[a]]
            for a in range(k):
                for b in range(a + 1):
                    T[a, b] += y[a] * y[b]
        for a in range(k):
            for b in range(a):
                T[b, a] = T[a, b]
        n = first[p + 1] - first[p]
        found = K @ T @ K - n * K
        for a in range(k):
            for b in range(k):
                excess[there[a], there[b]] += found[a, b]


LEAST_EIGENVALUE = 1e-3
"""of EM's first correlations: pairwise ones need not be positive definite"""
SHRUNK = 0.1
"""shrinkage of EM's first correlations: EM gains dependence faster than it loses it"""
FLOOR = 1e-6
"""share of their diagonal added to covariances, for columns that are sums of others"""


@dataclass(frozen=True)
class ExpectationMaximisation:
    """Settings of the exchanges."""

    masked: bool = False
    """always mask the replies, even if the run does not"""
    tolerance: float = 0.01
    """largest relative change of the variance in any direction at the end"""
    rounds: int = 50
    """exchanges, at most"""

    def __post_init__(self) -> None:
        """Raise `BadInput` for a value outside its range."""
        require(self.tolerance > 0, "tolerance", self.tolerance, "above 0")
        require(self.rounds >= 2, "rounds", self.rounds, "2 or more")


@dataclass(frozen=True, eq=False)
class Silo:
    """A silo's rows `[n_rows, d]`, their coding, and the number of rows of all silos."""

    table: Table
    coding: Coding
    all_rows: int


@dataclass(frozen=True)
class Broadcast:
    """The covariance so far `[D, D]`; empty at first."""

    S: FloatArray


@dataclass(frozen=True)
class Reply:
    """A silo's part of the sum."""

    values: FloatArray


@dataclass(frozen=True)
class Server:
    """The covariance so far, and its effective number of rows; 0 before the first sum."""

    schema: Schema
    iteration: Iteration
    rows: int
    tolerance: float

    @property
    def covariance(self) -> FloatArray:
        """That so far, `[D, D]`."""
        return self.iteration.point

    @property
    def imputation_model(self) -> ImputationModel:
        """The model of the empty cells that every silo receives."""
        return ImputationModel(covariance=self.covariance, rows=self.rows)


def build(settings: ExpectationMaximisation) -> FederatedAlgorithm[Server, Silo, Broadcast, Reply]:
    """The exchanges."""
    return FederatedAlgorithm(
        open_silo=lambda table, schema, silo, rng: Silo(table, coding_of(schema), sum(schema.rows.values())),
        open_server=lambda schema: Server(schema.in_order(), Iteration(np.empty((0, 0))), 0, settings.tolerance),
        broadcast=lambda server: Broadcast(server.covariance),
        local_solve=lambda silo, asked: (silo, local_solve(silo, asked)),
        aggregate=aggregate,
        converged=lambda server: server.iteration.change <= server.tolerance,
        structure=_structure,
        server_type=Server,
        silo_type=Silo,
        broadcast_type=Broadcast,
        reply_type=Reply,
        max_rounds=settings.rounds,
        summand=only_field,
        entry_units=_units,
        needs_secure_sum=settings.masked,
        tolerates_dropout=True,
        measures=lambda server: {"change": server.iteration.change},
    )


def local_solve(silo: Silo, asked: Broadcast) -> Reply:
    """The silo's part of the pairs and their products, or of its expected second moments."""
    if len(asked.S):
        return Reply(triangle(expected(silo.table, silo.coding, asked.S).products) / silo.all_rows)
    products, pairs = pairwise_complete(silo.table, silo.coding)
    return Reply(np.concatenate([triangle(pairs), triangle(products)]) / silo.all_rows)


def pairwise_complete(table: Table, coding: Coding) -> tuple[FloatArray, FloatArray]:
    """The products and the number of the rows of `table` in which both cells of a pair are known, `[D, D]`.

    Products are about the means of the known cells.
    """
    means = column_summaries(coding.coded(table)).means
    products, pairs = np.zeros((coding.size, coding.size)), np.zeros((coding.size, coding.size))
    for rows in chunks(table):
        coded = coding.rows(rows)
        known = ~np.isnan(coded)
        deviations = np.where(known, coded - means, 0.0)
        products += deviations.T @ deviations
        pairs += known.T.astype(np.float64) @ known
    return products, pairs


def aggregate(server: Server, replies: Replies[Reply]) -> Server:
    """The state with the covariance that the sum gives. Raises `BadInput` for a column without variance."""
    assert replies.total is not None
    rows, all_rows = sum(server.schema.rows[silo] for silo in replies.silos), sum(server.schema.rows.values())
    total = replies.total * all_rows
    if len(server.covariance):
        S = _with_floor(from_triangle(total) / (rows - len(replies.silos)))
        return replace(server, iteration=anderson_step(server.iteration, S))
    pairs, products = (from_triangle(part) for part in np.split(total, 2))
    S = np.divide(products, pairs, out=np.zeros_like(products), where=pairs > 0.5)
    coding = coding_of(server.schema)
    for j in np.flatnonzero(np.diag(S) <= 0)[:1]:
        name = server.schema.variables[coding.owners[j]]
        raise BadInput(f"column '{name}' has no variance within any silo, so no edge can be learned")
    # A lost silo counts as having the others' share of empty cells: learners rescale by all rows.
    return replace(server, iteration=Iteration(_positive(S)), rows=_mean_of_pairs(pairs * (all_rows / rows), coding))


def _positive(S: FloatArray) -> FloatArray:
    """A covariance with the variances of `S` and about its correlations, slightly shrunk."""
    scale = np.sqrt(np.diag(S))
    values, vectors = np.linalg.eigh(S / np.outer(scale, scale))
    R = (vectors * np.maximum(values, LEAST_EIGENVALUE)) @ vectors.T
    R /= np.sqrt(np.outer(np.diag(R), np.diag(R)))
    return np.asarray(((1 - SHRUNK) * R + SHRUNK * np.eye(len(R))) * np.outer(scale, scale))


def _with_floor(S: FloatArray) -> FloatArray:
    return S + FLOOR * np.diag(np.diag(S))


def _mean_of_pairs(pairs: FloatArray, coding: Coding) -> int:
    """The mean number of rows over the pairs of variables, or, of one variable, its own."""
    first = np.array([block[0] for block in coding.blocks])
    of_variables = pairs[np.ix_(first, first)]
    apart = of_variables[np.triu_indices(len(first), 1)]
    return round(float(apart.mean() if len(apart) else of_variables[0, 0]))


def _units(schema: Schema, asked: Broadcast) -> FloatArray:
    products = product_units(coded_units(schema))
    return products if len(asked.S) else np.concatenate([np.ones(len(products)), products])


def _structure(server: Server) -> Structure:
    return no_edges(server.schema.variables)


SWEEPS = 5
"""Gibbs sweeps after the first draws, for dependent cells of one row"""


def gibbs_imputed(
    columns: NDArray[np.int16], cardinalities: NDArray[np.int64], filling: ImputationModel, rng: np.random.Generator
) -> NDArray[np.int16]:
    """`columns` `[d, n_rows]` with drawn codes in place of the empty cells, -1."""
    empty = columns < 0
    order = np.array(topological_order(filling.dag), np.int64)
    cells = np.argwhere(empty[order].T)  # by row, and within a row parents first
    cells[:, 1] = order[cells[:, 1]]
    out, uniforms = columns.copy(), rng.random((SWEEPS + 1, len(cells)))
    first, parents = _lists(filling.dag)
    begins, children = np.zeros(len(order) + 1, np.int64), _lists(filling.dag.T)
    for v in range(len(order)):
        family = [v, *parents[first[v] : first[v + 1]]]
        begins[v + 1] = begins[v] + cardinalities[family].prod()
    _draw(out, cells, uniforms, cardinalities, first, parents, *children, begins, filling.tables)
    return out


def _lists(dag: NDArray[np.bool_]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The parents of all variables one after another, ascending, and where those of each begin."""
    first = np.concatenate([[0], np.cumsum(dag.sum(axis=0))]).astype(np.int64)
    return first, np.argwhere(dag.T)[:, 1].astype(np.int64)


@njit(cache=True)
def _draw(out, cells, uniforms, sizes, first, parents, first_child, children, begins, tables):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    weights = np.empty(sizes.max())
    for c in range(len(cells)):
        row, v = cells[c]
        at = _place(out, row, v, 0, sizes, first, parents, begins)
        for level in range(sizes[v]):
            weights[level] = tables[at + level]
        out[v, row] = _drawn(weights, sizes[v], uniforms[0, c])
    for sweep in range(1, len(uniforms)):
        for c in range(len(cells)):
            row, v = cells[c]
            at = _place(out, row, v, 0, sizes, first, parents, begins)
            for level in range(sizes[v]):
                weights[level] = tables[at + level]
                out[v, row] = level
                for k in range(first_child[v], first_child[v + 1]):
                    child = children[k]
                    weights[level] *= tables[_place(out, row, child, out[child, row], sizes, first, parents, begins)]
            out[v, row] = _drawn(weights, sizes[v], uniforms[sweep, c])


@njit(cache=True)
def _place(out, row, v, level, sizes, first, parents, begins):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Where the tables have P(v = level | its parents as they are in this row)."""
    state = 0
    for k in range(first[v], first[v + 1]):
        state = state * sizes[parents[k]] + out[parents[k], row]
    return begins[v] + state * sizes[v] + level


@njit(cache=True)
def _drawn(weights, n, uniform):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """The level at which the running sum of `weights` passes the share `uniform` of all."""
    total = 0.0
    for level in range(n):
        total += weights[level]
    level, passed = 0, weights[0]
    while level < n - 1 and passed < uniform * total:
        level += 1
        passed += weights[level]
    return level
