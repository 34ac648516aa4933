"""The evidence of exact tests: count tables of discrete data, moments of continuous data, summed over the silos.

Sums of counts are all the server gets, so a run learns the same from the sum as from the rows in one place, however
they are split. What the sums tell of single rows is a matter of what is added to them: counts are integers, so a silo
can add its share of discrete Gaussian noise in `counts_of` before they are summed, and the tests
would have to reckon with it; that is not done here.
"""

from typing import Any

from numpy.typing import NDArray

from .chi_square import chi_square
from .counting import count, tables_for
from .federated import Answer, Evidence, Known, Query, Server, Silo
from .fisher_z import correlation, fisher_z
from .results import Results
from .settings import ConstraintSettings


def counts(settings: ConstraintSettings) -> Evidence:
    """Return the evidence of χ² or G² tests: one table for every set of variables that tests are about."""

    def question(server: Server) -> Query:
        tables = tables_for(server.search.tests, len(server.variables))
        return Query("tables", tables.sets, exchange=server.exchanges)

    def results(server: Server) -> Results | None:
        if server.known.what != "tables":
            return None
        tests = server.search.tests
        tables = tables_for(tests, len(server.variables))
        return chi_square(
            server.known.numbers, tables, server.cardinalities, tests, g_square=settings.statistic == "g2"
        )

    return Evidence(question, counts_of, _learn("tables"), results)


def counts_of(silo: Silo, query: Query) -> Answer:
    """Return the silo's tables over the sets asked for."""
    return Answer(count(silo.columns, silo.cardinalities, query.sets))


def pooled_moments() -> Evidence:
    """Return the evidence of Fisher's z: the moments, which are asked for once and answer every test there is."""

    def results(server: Server) -> Results | None:
        if server.known.what != "moments":
            return None
        return fisher_z(*correlation(server.known.numbers, len(server.variables)), server.search.tests)

    return Evidence(
        question=lambda server: Query("moments", exchange=server.exchanges),
        answer=lambda silo, query: Answer(silo.moments),
        learn=_learn("moments"),
        results=results,
        forget=False,
    )


def exact(settings: ConstraintSettings, kind: str) -> Evidence:
    """Return the evidence for `kind` of data."""
    return pooled_moments() if kind == "continuous" else counts(settings)


def _learn(what: str) -> Any:
    def learn(server: Server, total: NDArray[Any], silos: tuple[str, ...]) -> Known:
        return Known(what, total, silos)

    return learn
