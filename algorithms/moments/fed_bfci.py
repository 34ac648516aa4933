"""BFCI: the graph of BOSS, less what independence tests separate, oriented as a PAG, from one sum of second moments.

BOSS finds a DAG D with few edges that explains all dependences (Andrews et al. 2023). If causes are hidden, D has too
many edges, and some of its directions are wrong, but few edges are missing. So the search of FCI begins with the
skeleton of D instead of the complete graph, as in GFCI and BFCI (Ogarrio, Spirtes & Ramsey 2016; Tetrad). Two variables
that D does not join are separated by the parents in D of the later one. The tests of FCI then remove further edges,
with conditioning sets among neighbours and then in possible-d-sep sets, and Zhang's rules R1 to R10 orient the rest
(`constraint/`).

What leaves a silo: second moments of its numbers and of the indicators of its labels about its own means, once. The
server needs only the sum, and all tests and scores follow from it: Fisher's z and the Gaussian BIC of numbers;
likelihood ratios and scores of degenerate Gaussian models if there are also labels. For labels alone these models find
fewer arrowheads than the count tables of `fed-fci`, so labels alone are not accepted.
"""

import math
from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np
from annotated_types import Ge
from numpy.typing import NDArray

from ..constraint.evidence import moment_evidence
from ..constraint.federated import Server, measures
from ..constraint.orientation import FCI
from ..constraint.search import SeparatorSearch, create_plan, request_tests, step, untested_search
from ..constraint.settings import ConstraintSettings, Orientation
from ..constraint.subsets import Tests
from ..core.protocol import FederatedAlgorithm, Replies, Summand, sum_each_round
from ..core.schema import Schema
from ..core.settings import CountOrNone, Positive, Share
from ..graphs.dag import topological_order
from ..score.block_order import block_boss
from ..score.gaussian_order import gaussian_boss
from ..score.settings import OrderSettings
from ..statistics.coding import blocks_of, coding_of
from ..statistics.count_tables import PAD
from ..statistics.moments import covariance
from ..statistics.rows import Query, Rows, answer_as_asked, bytes_of, cardinalities_of, entry_units, open_rows


@dataclass(frozen=True)
class FedBfci(OrderSettings):
    """Settings of `fed-bfci`."""

    alpha: Share = 0.05
    """α, the level of the tests: p > α counts as independence"""
    orientation: Orientation = "clear"
    """how colliders are identified: by the separating set found first (sepset), or by all separating sets, of which all
    (conservative), four in five (clear) or more than half (majority) must agree"""
    depth: Annotated[int, Ge(-1)] = -1
    """the largest conditioning set (-1: as large as the graph requires)"""
    max_sets: CountOrNone = 100
    """number of conditioning sets of one size to try for a pair, the most promising first (0: all)"""
    price: Positive = 2.0
    """penalty of BOSS on a parent, in multiples of that of BIC"""

    @property
    def of_search(self) -> ConstraintSettings:
        """The settings of the search by tests; tests of moments count no tables."""
        return ConstraintSettings(
            alpha=self.alpha,
            orientation=self.orientation,
            depth=self.depth,
            max_sets=self.max_sets,
            rows_per_cell=0.0,
        )


def build(settings: FedBfci) -> FederatedAlgorithm[Server, Rows, Query, Summand]:
    """The one exchange."""
    evidence = moment_evidence()
    return replace(
        sum_each_round(
            open_silo=open_rows,
            open_server=open_server,
            broadcast=evidence.question,
            part=lambda silo, query: answer_as_asked(silo, query, evidence.answers),
            aggregate=lambda server, replies: aggregate(server, replies, settings),
            converged=lambda server: server.exchanges > 0,
            structure=lambda server: FCI.graph(server.search, server.variables, settings.orientation, server.prior),
            server_type=Server,
            broadcast_type=Query,
            max_rounds=1,
            entry_units=entry_units,
            measures=measures,
        ),
        cost=bytes_of,
    )


def open_server(schema: Schema) -> Server:
    """The state before the sum, in which all pairs are joined."""
    prior = schema.knowledge.prior(schema.variables)
    return Server(
        schema.variables,
        schema.kind,
        cardinalities_of(schema),
        coding_of(schema),
        dict(sorted(schema.rows.items())),
        schema.knowledge,
        untested_search(prior.possible_pairs),
    )


def aggregate(server: Server, replies: Replies[Summand], settings: FedBfci) -> Server:
    """The state after the whole search, which the sum of the silos' moments determines."""
    evidence = moment_evidence()
    server = replace(server, known=evidence.learn(server, replies.total, replies.silos), exchanges=1)
    rows = int(sum(server.rows[silo] for silo in replies.silos))
    limited = replace(settings.of_search, depth=_depth(settings.depth, rows))
    plan = create_plan(limited, server.cardinalities, rows, FCI.pools, server.prior)
    search = request_tests(plan, search_from(best_dag(server, settings)))
    while not search.done:
        results = evidence.results(replace(server, search=search))
        assert results is not None
        search = step(plan, search, results)
    return replace(server, search=search)


def _depth(depth: int, rows: int) -> int:
    """The largest conditioning set that Fisher's z test of this number of `rows` allows."""
    deepest = max(rows - 4, 0)
    return deepest if depth < 0 else min(depth, deepest)


def best_dag(server: Server, settings: FedBfci) -> NDArray[np.bool_]:
    """The DAG of BOSS, from the sums of `server`."""
    numbers, prior = server.known.numbers, server.prior
    if server.kind == "mixed":
        blocks = blocks_of(numbers, server.coding)
        return block_boss(blocks, settings.price * math.log(blocks.rows), settings, prior).dag
    rows, S = covariance(numbers, len(server.variables))
    return gaussian_boss(S, rows, settings.price * math.log(rows), settings, prior).dag


def search_from(dag: NDArray[np.bool_]) -> SeparatorSearch:
    """A search that begins with the skeleton of `dag` `[d, d]`.

    Any other pair is separated by the parents of the variable that is later in a topological order (the local Markov
    property).
    """
    d = len(dag)
    place = np.argsort(topological_order(dag, np.arange(d)))
    apart = [(i, j) for i, j in np.argwhere(np.triu(~(dag | dag.T), 1)).tolist()]
    sets = [np.flatnonzero(dag[:, i if place[i] > place[j] else j]) for i, j in apart]
    separators: Tests = np.full((len(apart), 2 + max(map(len, sets), default=0)), PAD, np.int16)
    for row, pair, given in zip(separators, apart, sets, strict=True):
        row[:2], row[2 : 2 + len(given)] = pair, given
    return replace(untested_search(dag | dag.T), separators=separators, p=np.ones(len(apart)))
