"""PC-CIT-Voting and FCI-CIT-Voting: each silo makes every test on its own rows, the majority decides it (003 §5).

What leaves a silo: for every test, whether its own rows call it independent, and how strong the dependence is in them;
the latter only serves to ask the promising tests first. What the server needs: the sums.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..constraint.chi_square import chi_square
from ..constraint.federated import Answer, Evidence, Known, Query, Server, Silo, federated_search, on_grid
from ..constraint.fisher_z import correlation, fisher_z
from ..constraint.procedures import FCI, PC, Procedure
from ..constraint.results import Results
from ..constraint.settings import ConstraintSettings
from ..core.protocol import FederatedAlgorithm
from ..statistics.count_tables import count, tables_for


def pc_cit_voting(settings: ConstraintSettings) -> FederatedAlgorithm[Server, Silo, Query, Answer]:
    """Return PC whose tests are voted on."""
    return _voting(settings, PC)


def fci_cit_voting(settings: ConstraintSettings) -> FederatedAlgorithm[Server, Silo, Query, Answer]:
    """Return FCI whose tests are voted on."""
    return _voting(settings, FCI)


def _voting(settings: ConstraintSettings, procedure: Procedure) -> FederatedAlgorithm[Server, Silo, Query, Answer]:
    ballots = votes(settings)
    return federated_search(settings, procedure, lambda kind: ballots, rows_of_all=False)


def votes(settings: ConstraintSettings) -> Evidence:
    """Return the evidence of votes: a test finds independence if more than half of the silos do."""

    def answer(silo: Silo, query: Query) -> Answer:
        own = own_results(silo, query.sets, settings)
        return Answer(np.concatenate([own.p > settings.alpha, on_grid(own.strength)]).astype(np.float32))

    def learn(server: Server, total: NDArray[Any], silos: tuple[str, ...]) -> Known:
        return Known("votes", total, silos)

    def results(server: Server) -> Results | None:
        known = server.known
        if known.what != "votes":
            return None
        independent, strength = np.split(known.numbers, 2)
        return Results((2 * independent > len(known.silos)).astype(np.float64), strength / len(known.silos))

    return Evidence(
        question=lambda server: Query("votes", server.search.tests, exchange=server.exchanges),
        answer=answer,
        learn=learn,
        results=results,
    )


def own_results(silo: Silo, tests: NDArray[np.int16], settings: ConstraintSettings) -> Results:
    """Return the results of `tests` on the rows of one silo."""
    if silo.kind == "continuous":
        return fisher_z(*correlation(silo.moments, len(silo.cardinalities)), tests)
    tables = tables_for(tests, len(silo.columns))
    counts = count(silo.columns, silo.cardinalities, tables.sets).astype(np.float64)
    return chi_square(counts, tables, silo.cardinalities, tests, g_square=settings.statistic == "g2")
