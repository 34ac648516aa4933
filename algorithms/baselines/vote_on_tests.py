"""PC-CIT-Voting and FCI-CIT-Voting: each silo makes every test on its own rows, and the majority decides it.

Source: Wang, Ma & Wang 2023, §5.

What leaves a silo: for every test, whether the silo's own rows show independence, and the strength of the dependence,
which is used only to order the tests. The server needs only the sums over the silos.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..constraint.federated import Evidence, Server, SummedEvidence, federated_search
from ..constraint.moment_tests import fisher_z
from ..constraint.orientation import FCI, PC, ConstraintMethod
from ..constraint.search import Results
from ..constraint.settings import ConstraintSettings
from ..constraint.table_tests import chi_square
from ..core.protocol import FederatedAlgorithm, Summand
from ..errors import BadInput
from ..statistics.count_tables import NO_LIMITS, count, limited_counts, tables_for
from ..statistics.moments import correlation, to_multiples
from ..statistics.packing import Packing, packing
from ..statistics.rows import Query, Rows

# Strengths are rounded to multiples of 2^-STRENGTH_BITS. So their sum is exact in any order, masked or not.
STRENGTH_BITS = 20


def pc_cit_voting(settings: ConstraintSettings) -> FederatedAlgorithm[Server, Rows, Query, Summand]:
    """PC with a vote on each test."""
    return _test_voting(settings, PC)


def fci_cit_voting(settings: ConstraintSettings) -> FederatedAlgorithm[Server, Rows, Query, Summand]:
    """FCI with a vote on each test."""
    return _test_voting(settings, FCI)


def _test_voting(
    settings: ConstraintSettings, method: ConstraintMethod
) -> FederatedAlgorithm[Server, Rows, Query, Summand]:
    ballots = votes(settings)
    return federated_search(settings, method, lambda kind: ballots, rows_of_all=False)


def votes(settings: ConstraintSettings) -> Evidence:
    """The evidence of votes: a test finds independence if it does so in more than half of the silos."""

    def answer(silo: Rows, query: Query) -> NDArray[Any]:
        own = own_results(silo, query.sets, settings)
        packed = ballot_on_tests(len(query.sets)).pack(
            independent=own.p > settings.alpha, strength=to_multiples(own.strength, STRENGTH_BITS)
        )
        return packed.astype(np.float32)

    def learn(server: Server, total: NDArray[Any], silos: tuple[str, ...]) -> SummedEvidence:
        return SummedEvidence("votes", total, silos)

    def results(server: Server) -> Results | None:
        sums = server.known
        if sums.what != "votes":
            return None
        votes, voters = ballot_on_tests(len(server.search.tests)).unpack(sums.numbers), len(sums.silos)
        return Results((2 * votes["independent"] > voters).astype(np.float64), votes["strength"] / voters)

    return Evidence(
        question=lambda server: Query("votes", server.search.tests, exchange=server.exchanges),
        answers={"votes": answer},
        learn=learn,
        results=results,
    )


def ballot_on_tests(n_tests: int) -> Packing:
    """The packing of a silo's votes on `n_tests` tests."""
    return packing(independent=n_tests, strength=n_tests)


def own_results(silo: Rows, tests: NDArray[np.int16], settings: ConstraintSettings) -> Results:
    """The results of `tests` on the rows of one silo. Raises `BadInput` if a test is not of distinct variables."""
    _require_tests(tests, len(silo.cardinalities))
    if silo.kind == "continuous":
        return fisher_z(*correlation(silo.moments, len(silo.cardinalities)), tests)
    tables = tables_for(tests, len(silo.cardinalities))
    with limited_counts(NO_LIMITS):  # these counts stay at the silo
        counts = count(silo.columns, silo.cardinalities, tables.sets).astype(np.float64)
    return chi_square(counts, tables, silo.cardinalities, tests, g_square=settings.statistic == "g2")


def _require_tests(tests: NDArray[np.int16], d: int) -> None:
    """Raise `BadInput` unless each test has distinct numbers from 0 to d − 1, first two variables, or −1 as padding."""
    apart = np.sort(tests, axis=-1)
    repeated = (apart[:, 1:] == apart[:, :-1]) & (apart[:, 1:] >= 0)
    if tests.shape[1] < 2 or (tests[:, :2] < 0).any() or (tests < -1).any() or (tests >= d).any() or repeated.any():
        raise BadInput("a test must be of two variables, given others")
