"""PC-CIT-Voting and FCI-CIT-Voting: each silo makes every test on its own rows, the majority decides it.

Source: Wang, Ma & Wang 2023, §5.

What leaves a silo: for every test, whether its own rows call it independent, and how strong the dependence is in them;
the latter only serves to ask the promising tests first. What the server needs: the sums.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..constraint.chi_square import chi_square
from ..constraint.federated import Evidence, Known, Server, federated_search
from ..constraint.fisher_z import fisher_z
from ..constraint.orientation import FCI, PC, ConstraintMethod
from ..constraint.search import ConstraintSettings, Results
from ..core.protocol import FederatedAlgorithm
from ..statistics.count_tables import count, tables_for
from ..statistics.moments import correlation, to_multiples
from ..statistics.packing import Packing, packing
from ..statistics.rows import Numbers, Query, Rows

# Rounded to so many bits, strengths add up exactly, in any order, masked or not.
STRENGTH_BITS = 20


def pc_cit_voting(settings: ConstraintSettings) -> FederatedAlgorithm[Server, Rows, Query, Numbers]:
    """PC whose tests are voted on."""
    return _voting(settings, PC)


def fci_cit_voting(settings: ConstraintSettings) -> FederatedAlgorithm[Server, Rows, Query, Numbers]:
    """FCI whose tests are voted on."""
    return _voting(settings, FCI)


def _voting(settings: ConstraintSettings, method: ConstraintMethod) -> FederatedAlgorithm[Server, Rows, Query, Numbers]:
    ballots = votes(settings)
    return federated_search(settings, method, lambda kind: ballots, rows_of_all=False)


def votes(settings: ConstraintSettings) -> Evidence:
    """The evidence of votes: a test finds independence if more than half of the silos do."""

    def answer(silo: Rows, query: Query) -> Numbers:
        own = own_results(silo, query.sets, settings)
        packed = ballot(len(query.sets)).pack(
            independent=own.p > settings.alpha, strength=to_multiples(own.strength, STRENGTH_BITS)
        )
        return Numbers(packed.astype(np.float32))

    def learn(server: Server, total: NDArray[Any], silos: tuple[str, ...]) -> Known:
        return Known("votes", total, silos)

    def results(server: Server) -> Results | None:
        known = server.known
        if known.what != "votes":
            return None
        votes, voters = ballot(len(server.search.tests)).unpack(known.numbers), len(known.silos)
        return Results((2 * votes["independent"] > voters).astype(np.float64), votes["strength"] / voters)

    return Evidence(
        question=lambda server: Query("votes", server.search.tests, exchange=server.exchanges),
        answer=answer,
        learn=learn,
        results=results,
    )


def ballot(n_tests: int) -> Packing:
    """How a silo's votes on `n_tests` tests are packed."""
    return packing(independent=n_tests, strength=n_tests)


def own_results(silo: Rows, tests: NDArray[np.int16], settings: ConstraintSettings) -> Results:
    """The results of `tests` on the rows of one silo."""
    if silo.kind == "continuous":
        return fisher_z(*correlation(silo.moments, len(silo.cardinalities)), tests)
    tables = tables_for(tests, len(silo.cardinalities))
    counts = count(silo.columns, silo.cardinalities, tables.sets).astype(np.float64)
    return chi_square(counts, tables, silo.cardinalities, tests, g_square=settings.statistic == "g2")
