"""χ² from random projections (Wang, Ma & Wang 2023, Algorithm 1), with the estimator corrected.

For every test, the silos first sum the margins v_xz and v_yz, which give the expected counts v̄ = v_xz v_yz / v_z.
Then they sum l random projections P·(v / √v̄) of each stratum's table v. Subtracting P·√v̄ from the sum gives e = P·u
with u = (v − v̄) / √v̄, so ‖u‖² is the χ² statistic of the stratum. The entries of P are N(0, 2), the stable
distribution of index 2, and the geometric mean of the |e_k| estimates ‖u‖² (Li 2008):

    Q̂ = Π_k |e_k|^{2/l} / ((2/π) Γ(2/l) Γ(1 − 1/l) sin(π/l))^l.

Algorithm 1 prints a sum in place of the product; at l = 50 that sum is about 90 for any χ². Here the server, not each
silo, subtracts P·√v̄. If a silo drops out between the two exchanges, margins and projections come from different
rows, so the server requests both again.

Protection: P and the margins are public. So the table of a stratum can be computed from its projections if (|X| −
1)(|Y| − 1) ≤ l. With l = 50, this applies to all tables of up to eight by eight levels; larger tables are partly
hidden. If a table has fewer than l cells, its projections are even longer than the table. The mode exists for
comparison with the paper, not for protection.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtrc, gamma

from ..core.schema import FloatArray
from ..statistics.count_tables import TableReader, Tables, count, offsets, tables_for
from ..statistics.moments import to_multiples
from ..statistics.rows import Query, Rows, counts_of
from .federated import Evidence, Server, SummedEvidence
from .search import Results
from .subsets import Tests

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
