"""The evidence of exact tests: count tables of discrete data, moments of other data, summed over the silos.

The server needs only the sums, and the sums are those of the pooled rows: however the rows are split, a run learns what
it would learn from all of them in one place. In a private run (`private_counts.py`) the counts are noisy, and the tests
allow for the noise.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace

from ..core.schema import FloatArray
from ..statistics.coding import blocks_of
from ..statistics.count_tables import ReadTables, tables_for
from ..statistics.moments import correlation, of_all_rows
from ..statistics.rows import Numbers, Query, Rows, counts_of, moments_of
from .chi_square import chi_square, noisy_chi_square
from .federated import Evidence, Known, Server
from .fisher_z import fisher_z, likelihood_ratio
from .private_counts import PrivateRows, TablePlan, noisy
from .search import ConstraintSettings, Results


def counts(settings: ConstraintSettings) -> Evidence:
    """The evidence of χ² or G² tests: one count table for each set of variables that is tested."""

    def question(server: Server) -> Query:
        tables = tables_for(server.search.tests, len(server.variables))
        return Query("tables", tables.sets, exchange=server.exchanges)

    def results(server: Server) -> Results | None:
        known, tests = server.known, server.search.tests
        if known.what != "tables":
            return None
        tables = tables_for(tests, len(server.variables))
        if known.noise:
            return noisy_chi_square(ReadTables(tables, server.cardinalities, known.numbers), tests, known.noise)
        return chi_square(known.numbers, tables, server.cardinalities, tests, g_square=settings.statistic == "g2")

    def learn(server: Server, total: FloatArray, silos: tuple[str, ...]) -> Known:
        return Known("tables", total, silos)

    return Evidence(question, counts_of, learn, results)


def private_counts(settings: ConstraintSettings, plan: Callable[[Mapping[str, int]], TablePlan]) -> Evidence:
    """The evidence of χ² tests on noisy tables; `plan` says how much noise, from the silos' numbers of rows."""

    def learn(server: Server, total: FloatArray, silos: tuple[str, ...]) -> Known:
        tables = tables_for(server.search.tests, len(server.variables))
        noise = plan(server.rows).variance(len(tables.sets), len(total))
        return Known("tables", total, silos, float(noise * len(silos)))

    return replace(counts(settings), answer=noisy_counts_of, learn=learn)


def noisy_counts_of(rows: Rows, query: Query) -> Numbers:
    """The silo's tables with its share of the noise."""
    assert isinstance(rows, PrivateRows)
    return Numbers(noisy(counts_of(rows, query).numbers, len(query.sets), rows.plan, rows.key))


def moments() -> Evidence:
    """The evidence of Fisher's z, or of likelihood ratios where data are mixed: the pooled moments, once."""

    def learn(server: Server, total: FloatArray, silos: tuple[str, ...]) -> Known:
        return Known("moments", of_all_rows(total, server.all_rows), silos)

    def results(server: Server) -> Results | None:
        if server.known.what != "moments":
            return None
        if server.kind == "mixed":
            return likelihood_ratio(blocks_of(server.known.numbers, server.coding), server.search.tests)
        return fisher_z(*correlation(server.known.numbers, len(server.variables)), server.search.tests)

    return Evidence(
        question=lambda server: Query("moments", exchange=server.exchanges),
        answer=lambda rows, query: moments_of(rows),
        learn=learn,
        results=results,
        forget=False,
    )


def exact(settings: ConstraintSettings, kind: str) -> Evidence:
    """The evidence for `kind` of data."""
    return counts(settings) if kind == "discrete" else moments()
