"""What a run on numbers needs to know of its data: pooled means and variances, and which silo disagrees (ours).

Exchange 1 is a sum: each silo's part of the rows, means, and second moments about its own means.
Exchange 2 tells the silos what came out. Each takes its own part out of the sum again and compares itself with the
others: how far its means are from theirs, how much better its own regressions on the learned edges fit its rows than
theirs do, how many of its cells lie far out, and whether residuals bend with what is predicted. It answers with these
four figures and the columns in which they are greatest. They travel in the sum, each silo's in a place of its own: to
name the silo that disagrees, the coordinator must see them.

Figures of each silo in a sum: each has a place of its own, and leaves those of the others at zero.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core.protocol import FederatedAlgorithm, Replies, only_field
from ..core.schema import NO_IMPUTATION, FloatArray, Schema
from ..graphs.structure import Structure, no_edges
from ..statistics.coding import coded_names, coded_units, coding_of
from ..statistics.em import about_own_means
from ..statistics.moments import Table, column_summaries, moment_units, sum_over_chunks, thin_rows
from ..statistics.packing import Block, Packing, packing


def places(silos: int, figures: int) -> FloatArray:
    """Room for so many figures of so many silos, each a value and the number of its column."""
    return np.zeros((silos, figures, 2))


def by_silo(replies: Replies[Any], schema: Schema) -> FloatArray:
    """Return what the sum holds of each silo, in sorted order, `[silos, figures, 2]`; NaN for one that is lost."""
    assert replies.total is not None
    found = replies.total.reshape(len(schema.silos), -1, 2).copy()
    found[[place for place, silo in enumerate(schema.silos) if silo not in replies.silos]] = np.nan
    return found


FAR_OUT = 6.0
"""from the median, in standard deviations by the median absolute deviation: beyond that a cell is an outlier"""
MAD = 1.4826
"""standard deviations in the median absolute deviation of a Gaussian"""
LOOKED_AT = 20_000
"""rows from which medians are taken, of a table that is read in passes"""
SURE = 5.0
"""how many times what chance explains a figure must be, to be told"""
LEAST_ROWS = 30
"""with all cells that a residual needs, for it to be looked at"""
FIGURES = ("shift", "weights", "outliers", "bend")
"""what a silo says of itself: each with the number of its column"""


@dataclass(frozen=True)
class Diagnosis:
    """Settings of the exchange."""

    masked: bool = False
    """always mask the replies, even if the run does not"""


@dataclass(frozen=True)
class Silo:
    """A silo's rows `[n_rows, d]`, what they give, its place among the silos, and how many these and all rows are."""

    table: Table
    """NaN where a cell is empty"""
    means: FloatArray
    products: FloatArray
    """second moments about the means, summed, `[d, d]`: expected ones where cells are empty"""
    numbers: NDArray[np.bool_]
    """which columns are those of continuous variables, and not indicators of levels"""
    there: NDArray[np.bool_]
    """which columns have any cell here"""
    place: int
    silos: int
    all_rows: int


@dataclass(frozen=True)
class Broadcast:
    """Nothing at first; then what the sum over so many rows says, and the learned edges."""

    rows: int
    means: FloatArray
    """`[d]`"""
    within: FloatArray
    """second moments about the silos' own means, `[d, d]`"""
    parents: NDArray[np.bool_]
    """`[d, d]`: row i, column j says whether i and j are joined and i may be a cause of j"""
    counted: NDArray[np.bool_]
    """which silos, in sorted order, are in these sums"""


@dataclass(frozen=True)
class Reply:
    """The silo's summand: its moments, or its figures in its own place."""

    values: FloatArray


@dataclass(frozen=True)
class Server:
    """What has come so far."""

    schema: Schema
    parents: NDArray[np.bool_]
    rows: int
    """of the silos that answered"""
    means: FloatArray
    within: FloatArray
    """second moments about the silos' own means `[d, d]`, per row"""
    counted: NDArray[np.bool_]
    """which silos, in sorted order, are in these sums"""
    figures: FloatArray
    """by silo, in sorted order, and by figure: its value and its column, `[silos, 4, 2]`; NaN for one that is lost"""


def start(schema: Schema, structure: Structure) -> Server:
    """The server's state before the exchange, for a learned `structure`.

    Of mixed data its columns are the coded ones: an edge joins all those of its ends.
    """
    nothing, nobody = np.empty(0), np.zeros(len(schema.silos), np.bool_)
    figures, owners = np.empty((0, len(FIGURES), 2)), coding_of(schema).owners
    coded = replace(schema.in_order(), variables=coded_names(schema), levels={}, imputation_model=NO_IMPUTATION)
    joined = structure.adjacency[np.ix_(owners, owners)]
    return Server(coded, joined, 0, nothing, np.empty((0, 0)), nobody, figures)


def moments_packing(d: int) -> Packing:
    """How a silo's part of the moments is packed: part of the rows, means, second moments."""
    return Packing((*packing(part=(), means=d).blocks, Block("products", (d, d), symmetric=True)))


def build(settings: Diagnosis) -> FederatedAlgorithm[Server, Silo, Broadcast, Reply]:
    """The two exchanges; they start from the state that `start` gives."""
    return FederatedAlgorithm(
        open_silo=open_silo,
        open_server=lambda schema: start(schema, no_edges(schema.variables)),
        broadcast=lambda server: Broadcast(server.rows, server.means, server.within, server.parents, server.counted),
        local_solve=lambda silo, asked: (silo, answer(silo, asked)),
        aggregate=aggregate,
        converged=lambda server: len(server.figures) > 0,
        structure=lambda server: no_edges(server.schema.variables),
        server_type=Server,
        silo_type=Silo,
        broadcast_type=Broadcast,
        reply_type=Reply,
        max_rounds=2,
        summand=only_field,
        entry_units=_units,
        needs_secure_sum=settings.masked,
        tolerates_dropout=True,
    )


def _units(schema: Schema, asked: Broadcast) -> FloatArray:
    return np.ones(1) if asked.rows else moment_units(coded_units(schema))


def open_silo(table: Table, schema: Schema, silo: str, rng: np.random.Generator) -> Silo:
    """The silo with its rows, and their moments: where cells are empty, those expected."""
    own = about_own_means(table, schema)
    coding, place = coding_of(schema), schema.silos.index(silo)
    coded = coding.coded(table)
    there = column_summaries(coded).known > 0 if schema.gaps else np.ones(coding.size, np.bool_)
    return Silo(
        table=coded,
        there=there,
        means=own.mean,
        products=own.products,
        numbers=~np.array(coding.discrete, np.bool_)[coding.owners],
        place=place,
        silos=len(schema.silos),
        all_rows=sum(schema.rows.values()),
    )


def answer(silo: Silo, asked: Broadcast) -> Reply:
    """The silo's part of the moments, or what it finds when it compares itself with the others."""
    n, (rows, d) = asked.rows or silo.all_rows, silo.table.shape
    means, part = silo.means, rows / n
    if not asked.rows:
        return Reply(moments_packing(d).pack(part=part, means=part * means, products=silo.products / n))
    figures = places(silo.silos, len(FIGURES))
    inside = part if asked.counted[silo.place] else 0.0
    if silo.silos > 1 and inside < 1:
        own = silo.products / rows
        rest_means = (asked.means - inside * means) / (1 - inside)
        rest = (asked.within - inside * own) / (1 - inside)
        apart = np.abs(means - rest_means) / np.sqrt(_positive(rest))
        figures[silo.place, 0] = _greatest(np.where(silo.there, apart, 0.0))
        figures[silo.place, 1] = _greatest(_better_by_own(own, rest, asked.parents & silo.numbers, rows))
    figures[silo.place, 2] = _outlying(silo.table)
    figures[silo.place, 3] = _greatest(_bent(silo.table, means, asked.within, asked.parents & silo.numbers))
    return Reply(figures.ravel())


def _greatest(values: FloatArray) -> tuple[float, float]:
    return float(np.max(values)), float(np.argmax(values))


def _positive(S: FloatArray) -> FloatArray:
    return np.maximum(np.diag(S), 1e-12)


def _better_by_own(own: FloatArray, rest: FloatArray, parents: NDArray[np.bool_], rows: int) -> FloatArray:
    """Return, by variable, ln of how much less its own weights leave of its rows than the others' weights do, `[d]`.

    Less what fitting p weights to so many rows gains by chance, p/rows. A variable without parents, or that is constant
    in this silo, has none.
    """
    found = np.zeros(len(own))
    for j in np.flatnonzero(parents.any(axis=0)):
        of = np.flatnonzero(parents[:, j])
        if len(of) + 2 >= rows or own[j, j] <= 1e-12 * rest[j, j]:
            continue
        left = []
        for S in (own, rest):
            weights = np.linalg.lstsq(S[np.ix_(of, of)], S[of, j], rcond=None)[0]
            left.append(own[j, j] - 2 * weights @ own[of, j] + weights @ own[np.ix_(of, of)] @ weights)
        least = 1e-9 * max(own[j, j], 1e-300)
        found[j] = np.log(max(left[1], least) / max(left[0], least)) - len(of) / rows
    return found


def _bent(table: Table, means: FloatArray, S: FloatArray, parents: NDArray[np.bool_]) -> FloatArray:
    """Return, by variable, how much of its residual the square of its prediction explains, `[d]`: 0 to 1.

    Where effects are linear it explains nothing (Ramsey's RESET, 1969). Rows are about their `means`, and those without
    a cell that is needed are left out; predictions are those of regressions on all silos' moments `S`.
    """
    fits = {int(j): _fit(S, np.flatnonzero(parents[:, j]), int(j)) for j in np.flatnonzero(parents.any(axis=0))}

    def sums(rows: FloatArray) -> FloatArray:
        return np.array([(len(left), left.sum(), bent.sum()) for left, bent in _predictions(rows, means, fits)])

    def products_of(rows: FloatArray) -> FloatArray:
        found = []
        for (left, bent), (of_left, of_bent) in zip(_predictions(rows, means, fits), middle, strict=True):
            left, bent = left - of_left, bent - of_bent
            found.append((left @ left, bent @ bent, left @ bent))
        return np.array(found)

    found = np.zeros(len(S))
    if fits:
        total = sum_over_chunks(table, sums)
        enough, middle = total[:, 0] >= LEAST_ROWS, total[:, 1:] / np.maximum(total[:, :1], 1)
        left, bent, both = sum_over_chunks(table, products_of).T
        share = np.divide(both**2, left * bent, out=np.zeros(len(fits)), where=enough & (left * bent > 0))
        # What chance explains is judged by all rows, and explains more of the fewer that have the cells.
        lacking = 1 / np.maximum(total[:, 0], 1) - 1 / table.shape[0]
        found[list(fits)] = np.maximum(share - SURE * np.log(2 * len(S)) * lacking, 0)
    return found


Fit = tuple[NDArray[np.intp], FloatArray]
"""the parents of a variable, and their weights"""


def _fit(S: FloatArray, of: NDArray[np.intp], j: int) -> Fit:
    return of, np.linalg.lstsq(S[np.ix_(of, of)], S[of, j], rcond=None)[0]


def _predictions(
    rows: FloatArray, means: FloatArray, fits: Mapping[int, Fit]
) -> Iterator[tuple[FloatArray, FloatArray]]:
    """Yield, variable after variable, its residuals and the squares of what is predicted of it, row by row."""
    complete = not np.isnan(rows.sum())
    for j, (of, weights) in fits.items():
        there = slice(None) if complete else ~np.isnan(rows[:, [*of, j]]).any(axis=1)
        predicted = (rows[there][:, of] - means[of]) @ weights
        yield rows[there, j] - means[j] - predicted, predicted**2


def _outlying(table: Table) -> tuple[float, float]:
    """The share of all cells that lie far out, and the column with most of them."""
    looked_at = thin_rows(table, LOOKED_AT)
    centre = _medians(looked_at)
    spread = MAD * _medians(np.abs(looked_at - centre))
    far = sum_over_chunks(table, lambda rows: ((np.abs(rows - centre) > FAR_OUT * spread) & (spread > 0)).sum(axis=0))
    return float(far.sum() / (table.shape[0] * len(far))), float(np.argmax(far))


def _medians(X: FloatArray) -> FloatArray:
    """The median of each column's cells that are not NaN, `[d]`; 0 for a column that has none."""
    if np.isnan(X.sum()):
        return np.asarray(np.nanmedian(np.where(np.isnan(X).all(axis=0), 0.0, X), axis=0))
    return np.asarray(np.median(X, axis=0))


def aggregate(server: Server, replies: Replies[Reply]) -> Server:
    """The state with what the sum says."""
    assert replies.total is not None
    schema, d = server.schema, len(server.schema.variables)
    if not len(server.means):
        sums = moments_packing(d).unpack(replies.total)
        part = float(sums["part"])
        rows = sum(schema.rows[silo] for silo in replies.silos)
        means = sums["means"] / part
        counted = np.array([silo in replies.silos for silo in schema.silos])
        return replace(server, rows=rows, means=means, within=sums["products"] / part, counted=counted)
    return replace(server, figures=by_silo(replies, schema))
