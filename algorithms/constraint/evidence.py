"""The evidence of exact tests: count tables of discrete data, moments of other data, summed over the silos.

The server needs only the sums. Summed counts equal the counts of the pooled rows, for every split of the rows. Summed
moments equal the moments of the pooled rows after each silo's means have been subtracted. In a private run the counts
are noisy (`private_counts.py`), and the tests account for the noise.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from numpy.typing import NDArray

from ..core.schema import FloatArray
from ..statistics.coding import blocks_of
from ..statistics.count_tables import TableReader, tables_for
from ..statistics.moments import correlation, undo_per_row
from ..statistics.rows import Query, Rows, counts_of, moments_of
from .federated import Evidence, Server, SummedEvidence
from .moment_tests import fisher_z, likelihood_ratio
from .noisy_table_tests import noisy_chi_square
from .private_counts import PrivateRows, TablePlan, add_noise
from .search import Results
from .settings import ConstraintSettings
from .table_tests import chi_square


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
        g_square, share = settings.statistic == "g2", server.independent_share
        return chi_square(sums.numbers, tables, server.cardinalities, tests, g_square=g_square, share=share)

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
