"""A constraint-based search over silos: the algorithm for a method (PC, FCI) and a kind of evidence.

The search runs at the server. A silo answers queries about its rows with numbers; the server needs only their sum.
`Evidence` defines the queries and how the replies decide the tests (see below, and the votes in
`baselines/`). If a silo drops out, the tests of that exchange use the rows of the others.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtrc, gamma

from ..core.knowledge import Knowledge, Prior
from ..core.promise import Cost, Promise, ReplaceOne
from ..core.protocol import FederatedAlgorithm, Replies, Summand, sum_each_round
from ..core.schema import FloatArray, Schema
from ..privacy.discrete_gaussian import Bits, child_key, discrete_gaussian
from ..privacy.zcdp import distributed_gaussian_cost, share_variance
from ..statistics.coding import Coding, blocks_of, coding_of
from ..statistics.count_tables import TableReader, Tables, count, offsets, tables_for
from ..statistics.moments import correlation, to_multiples, undo_per_row
from ..statistics.rows import (
    NO_VALUES,
    Answer,
    Query,
    Rows,
    answer_as_asked,
    bytes_of,
    cardinalities_of,
    counts_of,
    entry_units,
    greatest_count,
    moments_of,
    open_rows,
)
from .independence import chi_square, fisher_z, likelihood_ratio, noisy_chi_square
from .orientation import ConstraintMethod
from .search import Results, SearchPlan, SeparatorSearch, create_plan, start, step
from .settings import ConstraintSettings
from .subsets import Tests


@dataclass(frozen=True)
class SummedEvidence:
    """The sums that the search can use now, and the silos whose replies were added."""

    what: str = ""
    """the kind of the sums, such as tables or moments; empty without sums"""
    numbers: NDArray[Any] = field(default_factory=lambda: NO_VALUES)
    silos: tuple[str, ...] = ()
    noise: float = 0.0
    """variance of the noise in each number"""


@dataclass(frozen=True)
class Server:
    """The server's state."""

    variables: tuple[str, ...]
    kind: str
    cardinalities: NDArray[np.int64]
    coding: Coding
    rows: dict[str, int]
    """number of rows of each silo; public"""
    background: Knowledge
    """background knowledge of the graph"""
    search: SeparatorSearch
    known: SummedEvidence = field(default_factory=SummedEvidence)
    exchanges: int = 0

    @property
    def prior(self) -> Prior:
        """The background knowledge as matrices."""
        return self.background.prior(self.variables)

    @property
    def all_rows(self) -> int:
        """The number of rows of all silos."""
        return sum(self.rows.values())


@dataclass(frozen=True)
class Evidence:
    """The queries of a search, and how the replies of the silos decide its tests."""

    question: Callable[[Server], Query]
    answers: Mapping[str, Answer]
    """how a silo answers a query of each kind"""
    learn: Callable[[Server, NDArray[Any], tuple[str, ...]], SummedEvidence]
    """(server, summed numbers, silos that answered) -> the new `Server.known`"""
    results: Callable[[Server], Results | None]
    """results of the search's current tests; None if another exchange is needed first"""
    forget: bool = True
    """whether sums can be used only for the tests of their own exchange"""


def federated_search(
    settings: ConstraintSettings,
    method: ConstraintMethod,
    choose: Callable[[str], Evidence],
    rows_of_all: bool = True,
) -> FederatedAlgorithm[Server, Rows, Query, Summand]:
    """`method` as a federated algorithm; `choose` maps a kind of data to the evidence.

    A test must have enough rows. With `rows_of_all`, the number of rows of all silos decides this, otherwise the
    average number of rows per silo.
    """

    def search_plan(kind: str, cardinalities: NDArray[np.int64], rows: dict[str, int], prior: Prior) -> SearchPlan:
        rows_per_test = sum(rows.values()) // (1 if rows_of_all else len(rows))
        return _plan(settings, method, kind, cardinalities, rows_per_test, prior)

    def open_server(schema: Schema) -> Server:
        choose(schema.kind)
        cardinalities, rows = cardinalities_of(schema), dict(sorted(schema.rows.items()))
        background = schema.knowledge
        search = start(search_plan(schema.kind, cardinalities, rows, background.prior(schema.variables)))
        return Server(schema.variables, schema.kind, cardinalities, coding_of(schema), rows, background, search)

    def aggregate(server: Server, replies: Replies[Summand]) -> Server:
        evidence = choose(server.kind)
        updated = _with_sum(server, replies, evidence)
        return _advance_search(
            updated, evidence, search_plan(server.kind, server.cardinalities, server.rows, server.prior)
        )

    algorithm = sum_each_round(
        open_silo=open_rows,
        open_server=open_server,
        broadcast=lambda server: choose(server.kind).question(server),
        part=lambda silo, query: answer_as_asked(silo, query, choose(silo.kind).answers),
        aggregate=aggregate,
        converged=lambda server: server.search.done,
        structure=lambda server: method.graph(server.search, server.variables, settings.orientation, server.prior),
        server_type=Server,
        broadcast_type=Query,
        max_rounds=settings.rounds,
        entry_units=entry_units,
        greatest_total=greatest_count,
        measures=measures,
    )
    return replace(algorithm, cost=bytes_of)


def _with_sum(server: Server, replies: Replies[Summand], evidence: Evidence) -> Server:
    """The server with the sum of the silos' replies."""
    sums = evidence.learn(server, replies.total, replies.silos)
    return replace(server, known=sums, exchanges=server.exchanges + 1)


def _advance_search(server: Server, evidence: Evidence, plan: SearchPlan) -> Server:
    """The server after all steps of its search for which the sums suffice."""
    while not server.search.done and (results := evidence.results(server)) is not None:
        server = replace(server, search=step(plan, server.search, results))
        if evidence.forget:
            return replace(server, known=SummedEvidence())
    return server


def measures(server: Server) -> dict[str, float]:
    """The progress of the search."""
    search = server.search
    return {
        "edges": float(search.joined.sum() / 2),
        "conditioning_set_size": float(search.level),
        "tests": float(search.made),
        "tests_left_out": float(search.left_out),
    }


def _plan(
    settings: ConstraintSettings,
    method: ConstraintMethod,
    kind: str,
    cardinalities: NDArray[np.int64],
    rows: int,
    prior: Prior,
) -> SearchPlan:
    if kind != "discrete":  # Fisher's z test given k variables needs more than k + 3 rows
        deepest = max(rows - 4, 0)
        depth = deepest if settings.depth < 0 else min(settings.depth, deepest)
        settings = replace(settings, depth=depth, rows_per_cell=0.0)
    return create_plan(settings, cardinalities, rows, method.pools, prior)


# Private count tables: every silo adds a share of discrete Gaussian noise to its counts (our own method).
#
# The release is the summed tables over the sets of variables that the server requests, with the noise of all silos. If
# one row is replaced, at most one count in every table falls by one and another rises by one: the ℓ₂ sensitivity of an
# exchange with m tables is √(2m) for any tables. The depth of the search bounds the number of exchanges in advance.
# Each exchange may spend the same part of the budget, so an exchange with more tables has more noise. The choice of
# tables depends only on noisy sums of earlier exchanges, and the server's computations are post-processing.
#
# The levels of the variables are public, like the number of rows. To hide which labels occur in the rows, declare all
# possible labels.


VARIANCE_PARTS = 64
"""variances are multiples of 1/VARIANCE_PARTS"""


@dataclass(frozen=True)
class TablePlan:
    """The plan of the privacy budget, computed from public numbers only."""

    promise: Promise
    certain_shares: int
    """number of noise shares that are certain to be in a sum and unknown to its observers"""
    exchange_cost: Cost[ReplaceOne]
    """the privacy cost of one exchange"""

    def variance(self, tables: int, cells: int) -> Fraction:
        """The variance of one silo's noise in each cell, if `tables` tables have `cells` cells together."""
        variance = max(
            share_variance(sensitivity(tables), self.exchange_cost, self.certain_shares, VARIANCE_PARTS), Fraction(1, 4)
        )
        while self.exchange_cost < self.cost(tables, cells, variance):
            # A sum of discrete Gaussians is not exactly a discrete Gaussian, so its cost can be a little higher.
            variance += Fraction(1, VARIANCE_PARTS)
        return variance

    def cost(self, tables: int, cells: int, variance: Fraction) -> Cost[ReplaceOne]:
        """The cost of the summed tables with this noise from every silo."""
        return distributed_gaussian_cost(sensitivity(tables), variance, self.certain_shares, cells, ReplaceOne)


@dataclass(frozen=True)
class PrivateRows(Rows):
    """A silo's rows for private counts."""

    plan: TablePlan
    key: bytes = field(default=b"", repr=False)
    """the key of this round's noise"""


def sensitivity(tables: int) -> float:
    """The ℓ₂ sensitivity of `tables` count tables of one silo when one row is replaced, √(2 tables), rounded up."""
    return math.nextafter(math.sqrt(2 * tables), math.inf)


def table_plan(promise: Promise, certain_shares: int, exchanges: int) -> TablePlan:
    """The plan that keeps `promise` over `exchanges` exchanges (`certain_shares`: see `TablePlan`)."""
    return TablePlan(promise, certain_shares, promise.cost.portion(1, exchanges))


def add_noise(counts: NDArray[np.unsignedinteger], tables: int, plan: TablePlan, key: bytes) -> NDArray[np.int64]:
    """The `counts` of `tables` count tables with the silo's share of the noise."""
    if not len(counts):
        return counts.astype(np.int64)
    noise = discrete_gaussian(Bits(child_key(key, "count tables")), plan.variance(tables, len(counts)), len(counts))
    return np.asarray(counts.astype(np.int64) + noise)


# The evidence of exact tests: count tables of discrete data, moments of other data, summed over the silos.
#
# The server needs only the sums. Summed counts equal the counts of the pooled rows, for every split of the rows. Summed
# moments equal the moments of the pooled rows after each silo's means have been subtracted. In a private run
# (see below) the counts are noisy, and the tests account for the noise.


def count_evidence(settings: ConstraintSettings) -> Evidence:
    """The evidence of χ² or G² tests: one count table for each tested set of variables."""

    def question(server: Server) -> Query:
        tables = tables_for(server.search.tests, len(server.variables))
        return Query("tables", tables.sets, exchange=server.exchanges)

    def results(server: Server) -> Results | None:
        sums, tests = server.known, server.search.tests
        if sums.what != "tables":
            return None
        tables = tables_for(tests, len(server.variables))
        if sums.noise:
            return noisy_chi_square(TableReader(tables, server.cardinalities, sums.numbers), tests, sums.noise)
        return chi_square(sums.numbers, tables, server.cardinalities, tests, g_square=settings.statistic == "g2")

    def learn(server: Server, total: FloatArray, silos: tuple[str, ...]) -> SummedEvidence:
        return SummedEvidence("tables", total, silos)

    return Evidence(question, {"tables": counts_of}, learn, results)


def private_count_evidence(settings: ConstraintSettings, plan: Callable[[Mapping[str, int]], TablePlan]) -> Evidence:
    """The evidence of χ² tests on noisy tables; `plan` maps the silos' numbers of rows to a plan for the noise."""

    def learn(server: Server, total: FloatArray, silos: tuple[str, ...]) -> SummedEvidence:
        tables = tables_for(server.search.tests, len(server.variables))
        noise = plan(server.rows).variance(len(tables.sets), len(total))
        return SummedEvidence("tables", total, silos, float(noise * len(silos)))

    return replace(count_evidence(settings), answers={"tables": noisy_counts_of}, learn=learn)


def noisy_counts_of(rows: Rows, query: Query) -> NDArray[Any]:
    """The silo's tables with the silo's share of the noise."""
    assert isinstance(rows, PrivateRows)
    return add_noise(counts_of(rows, query), len(query.sets), rows.plan, rows.key)


def moment_evidence() -> Evidence:
    """The evidence of Fisher's z tests (mixed data: likelihood ratio tests): moments, summed in one exchange."""

    def learn(server: Server, total: FloatArray, silos: tuple[str, ...]) -> SummedEvidence:
        return SummedEvidence("moments", undo_per_row(total, server.all_rows), silos)

    def results(server: Server) -> Results | None:
        if server.known.what != "moments":
            return None
        if server.kind == "mixed":
            return likelihood_ratio(blocks_of(server.known.numbers, server.coding), server.search.tests)
        return fisher_z(*correlation(server.known.numbers, len(server.variables)), server.search.tests)

    return Evidence(
        question=lambda server: Query("moments", exchange=server.exchanges),
        answers={"moments": moments_of},
        learn=learn,
        results=results,
        forget=False,
    )


def exact_evidence(settings: ConstraintSettings, kind: str) -> Evidence:
    """The evidence of exact tests for this `kind` of data."""
    return count_evidence(settings) if kind == "discrete" else moment_evidence()


# χ² from random projections (Wang, Ma & Wang 2023, Algorithm 1), with the estimator corrected.
#
# For every test, the silos first sum the margins v_xz and v_yz, which give the expected counts v̄ = v_xz v_yz / v_z.
# Then they sum l random projections P·(v / √v̄) of each stratum's table v. Subtracting P·√v̄ from the sum gives e = P·u
# with u = (v − v̄) / √v̄, so ‖u‖² is the χ² statistic of the stratum. The entries of P are N(0, 2), the stable
# distribution of index 2, and the geometric mean of the |e_k| estimates ‖u‖² (Li 2008):
#
#     Q̂ = Π_k |e_k|^{2/l} / ((2/π) Γ(2/l) Γ(1 − 1/l) sin(π/l))^l.
#
# Algorithm 1 prints a sum in place of the product; at l = 50 that sum is about 90 for any χ². Here the server, not each
# silo, subtracts P·√v̄. If a silo drops out between the two exchanges, margins and projections come from different
# rows, so the server requests both again.
#
# Protection: P and the margins are public. So the table of a stratum can be computed from its projections if (|X| −
# 1)(|Y| − 1) ≤ l. With l = 50, this applies to all tables of up to eight by eight levels; larger tables are partly
# hidden. If a table has fewer than l cells, its projections are even longer than the table. The mode exists for
# comparison with the paper, not for protection.


# Projections are rounded to multiples of 2^-SKETCH_BITS. So their sum is exact in any order, masked or not.
SKETCH_BITS = 20


def projection_evidence(projections: int, seed: int) -> Evidence:
    """The evidence from `projections` random projections of each stratum's table (its sketch).

    Each set of tests takes two exchanges: one for the margins and one for the sketches.
    """

    def question(server: Server) -> Query:
        tests = server.search.tests
        if server.known.what == "margins":
            return Query("sketches", tests, server.known.numbers, server.exchanges)
        return Query("tables", margin_tables(tests, len(server.variables)).sets, exchange=server.exchanges)

    def sketches(silo: Rows, query: Query) -> NDArray[Any]:
        return sketches_of(silo, query, np.random.default_rng((seed, query.exchange)), projections)

    def learn(server: Server, total: NDArray[Any], silos: tuple[str, ...]) -> SummedEvidence:
        if server.known.what != "margins":
            return SummedEvidence("margins", total, silos)
        if silos != server.known.silos:  # margins and projections come from different rows: request both again
            return SummedEvidence()
        return SummedEvidence("sketches", np.concatenate([server.known.numbers, total]), silos)

    def results(server: Server) -> Results | None:
        if server.known.what != "sketches":
            return None
        tests = server.search.tests
        tables = margin_tables(tests, len(server.variables))
        n_margins = offsets(tables.sets, server.cardinalities)[-1]
        margins = TableReader(tables, server.cardinalities, server.known.numbers[:n_margins])
        rng = np.random.default_rng((seed, server.exchanges - 1))
        return estimate(margins, server.known.numbers[n_margins:], tests, rng, projections)

    return Evidence(question, {"tables": counts_of, "sketches": sketches}, learn, results)


def sketches_of(silo: Rows, query: Query, rng: np.random.Generator, projections: int) -> NDArray[Any]:
    """The silo's rounded P·(v / √v̄) of each stratum of each test, concatenated."""
    d = len(silo.cardinalities)
    tables = tables_for(query.sets, d)
    own = TableReader(tables, silo.cardinalities, count(silo.columns, silo.cardinalities, tables.sets))
    margins = TableReader(margin_tables(query.sets, d), silo.cardinalities, query.margins)
    sketches = []
    for t, (x, y) in enumerate(query.sets[:, :2].tolist()):
        expected = expected_counts(margins, t, x, y)
        scaled = np.divide(own.strata(t, (x, y)), np.sqrt(expected), out=expected * 0, where=expected > 0)
        sketches.append(project(scaled, rng, projections))
    return to_multiples(np.concatenate(sketches), SKETCH_BITS)


def estimate(
    margins: TableReader, sketches: FloatArray, tests: Tests, rng: np.random.Generator, projections: int
) -> Results:
    """The p-values and strengths of `tests`, from their margins and the summed P·(v / √v̄) of their strata."""
    statistic, dof, rows = np.zeros(len(tests)), np.zeros(len(tests)), np.ones(len(tests))
    at = 0
    for t, (x, y) in enumerate(tests[:, :2].tolist()):
        expected = expected_counts(margins, t, x, y)
        offset = project(np.sqrt(expected), rng, projections)
        u = (sketches[at : at + len(offset)] - offset).reshape(-1, projections)
        at += len(offset)
        levels = (expected.any(axis=2).sum(axis=1), expected.any(axis=1).sum(axis=1))
        free = np.maximum(levels[0] - 1, 0) * np.maximum(levels[1] - 1, 0)
        statistic[t], dof[t], rows[t] = geometric_mean(u)[free > 0].sum(), free.sum(), expected.sum()
    p = np.where(dof > 0, chdtrc(np.maximum(dof, 1), statistic), 1.0)
    return Results(p, statistic / np.sqrt(np.maximum(dof, 1)) / rows)


def project(strata: FloatArray, rng: np.random.Generator, projections: int) -> FloatArray:
    """P·s for each s of the `strata` `[n_strata, |X|, |Y|]`, with a separate P for each: `[n_strata * l]`."""
    flat = strata.reshape(len(strata), -1)
    P = rng.normal(0.0, np.sqrt(2.0), (len(flat), projections, flat.shape[1]))
    return np.asarray(np.einsum("slc,sc->sl", P, flat)).ravel()


def geometric_mean(e: FloatArray) -> FloatArray:
    """The estimates of ‖u‖² from e = P·u, `[n, l]`, for P with entries N(0, 2).

    Source: Wang, Ma & Wang 2023, Theorem 1, corrected.
    """
    n_projections = e.shape[1]
    constant = 2 / np.pi * gamma(2 / n_projections) * gamma(1 - 1 / n_projections) * np.sin(np.pi / n_projections)
    with np.errstate(divide="ignore"):
        logs = np.log(np.abs(e)) * 2 / n_projections
    return np.asarray(np.exp(logs.sum(axis=1) - n_projections * np.log(constant)))


def margin_tables(tests: Tests, d: int) -> Tables:
    """The tables over x and z of every test, then those over y and z."""
    return tables_for(np.concatenate([np.delete(tests, 1, axis=1), np.delete(tests, 0, axis=1)]), d)


def expected_counts(margins: TableReader, test: int, x: int, y: int) -> FloatArray:
    """The expected counts v̄ = v_xz v_yz / v_z of a test, `[n_strata, |X|, |Y|]`; 0 in an empty stratum."""
    n_tests = len(margins.tables.table_of) // 2
    of_x, of_y = margins.strata(test, (x,)), margins.strata(n_tests + test, (y,))
    rows = np.maximum(of_x.sum(axis=1), 1)
    return np.asarray(of_x[:, :, None] * of_y[:, None, :] / rows[:, None, None])
