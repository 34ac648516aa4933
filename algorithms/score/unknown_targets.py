"""Unknown targets: which mechanisms changed in which silo or condition, with the evidence (ours).

A condition is a part of a silo's rows, or a whole silo. A mechanism is the distribution of a variable given its
parents. The exchanges are those of BOSS with one sum for each condition (`core/experiments.py`). The score of a family
(a child and its parents) allows the child's mechanism to differ between classes of conditions, at a price
(`mechanisms.py`). So the search finds the graph and the classes together. One more exchange requests the families of
the graph that was found. Then the server decides for each variable which class is unchanged:

- If at least two conditions share all their mechanisms, the class of such a group of conditions. Of several groups, the
  largest is taken, and of equally large groups the one with the fewest changes elsewhere.
- If no two conditions share all mechanisms, the largest class of each variable.

The classes and the directions that they give do not depend on this choice, but the names of the targets do. The
evidence for a change is the likelihood ratio of two models: the condition has its own mechanism, or it shares that of
the unchanged class. The p-value by χ² is multiplied by the number of variables and by the number of conditions minus
one (Bonferroni).

Tables of numbers and labels have no such search. A valid test of a label's mechanism given numbers would need a
logistic regression for every family and condition.

What leaves a silo: of numbers, the second moments of each of its conditions, once; of labels, for each condition, the
counts over the sets that the search requests. They are masked. But if only one silo has a condition, the sum over the
silos reveals that silo's numbers (`docs/privacy.md`).
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtrc

from ..core.experiments import MechanismChange, Targets, condition_names
from ..core.protocol import FederatedAlgorithm, Replies, Summand
from ..core.schema import Schema
from ..statistics.rows import Query, Rows, bytes_of
from .families import Batch, families_of
from .mechanisms import Sums, classes_of
from .search_server import BossServer, structure
from .secure_search import secure_boss, sums_of_conditions, tables_of_sums, units_of
from .settings import SecureSearch

MIN_UNCHANGED = 2
"""minimum number of conditions that share all mechanisms, for these to count as unchanged"""


@dataclass(frozen=True)
class Server:
    """The server's state: the search, and at the end the changes."""

    search: BossServer
    conditions: tuple[str, ...]
    """names of the conditions, in the order of their sums"""
    changes: tuple[MechanismChange, ...]
    done: bool


def build(settings: SecureSearch) -> FederatedAlgorithm[Server, Rows, Query, Summand]:
    """The search for targets; `Schema.compares_conditions` must be true."""
    boss = secure_boss(settings)
    return FederatedAlgorithm(
        open_silo=boss.open_silo,
        open_server=lambda schema: Server(
            boss.open_server(schema), condition_names(schema.named_conditions), (), done=False
        ),
        broadcast=lambda server: _question(server, boss, settings),
        local_solve=boss.local_solve,
        aggregate=lambda server, replies: _aggregate(server, replies, boss, settings),
        converged=lambda server: server.done,
        structure=lambda server: structure(server.search),
        server_type=Server,
        broadcast_type=Query,
        reply_type=Summand,
        max_rounds=settings.rounds,
        summand=Summand.as_floats,
        entry_units=units_of,
        greatest_total=boss.greatest_total,
        needs_secure_sum=True,
        cost=bytes_of,
    )


def _question(server: Server, boss: FederatedAlgorithm[Any, Rows, Query, Summand], settings: SecureSearch) -> Query:
    """The next query of the search; when the search is done, the query for the families of its graph."""
    if not server.search.done:
        query: Query = boss.broadcast(server.search)
        return query
    return tables_of_sums(server.search, families_of(server.search.found), settings)


def _aggregate(
    server: Server,
    replies: Replies[Summand],
    boss: FederatedAlgorithm[Any, Rows, Query, Summand],
    settings: SecureSearch,
) -> Server:
    if not server.search.done:
        return replace(server, search=boss.aggregate(server.search, replies))
    batch = families_of(server.search.found)
    sums = sums_of_conditions(server.search, replies.total, settings)
    names = server.search.variables
    return replace(server, changes=changes_of(batch, sums, names, server.conditions), done=True)


def changes_of(
    batch: Batch, sums: Sums, variables: tuple[str, ...], conditions: tuple[str, ...]
) -> tuple[MechanismChange, ...]:
    """The changed mechanisms, by condition and variable; `batch` has the family of each variable."""
    classes = classes_of(batch, sums)
    unchanged, tied = unchanged_conditions(classes.of_condition, sums.rows)
    likelihood, parameters = sums.likelihood(batch), sums.parameters(batch)
    tests, found = len(batch) * (len(conditions) - 1), []
    for v, u in np.argwhere(~unchanged).tolist():
        reference = int((np.int64(1) << np.flatnonzero(unchanged[v])).sum())
        apart = [float(likelihood(one, np.array([v]))[0]) for one in (reference, 1 << u, reference | 1 << u)]
        statistic = 2 * (apart[0] + apart[1] - apart[2])
        child, parents = batch.family(v)
        p_value = min(1.0, float(chdtrc(parameters[v], statistic)) * tests)
        names = tuple(variables[p] for p in parents.tolist())
        evidence = (statistic, round(float(parameters[v])), p_value, bool(tied[v]))
        found.append(MechanismChange(conditions[u], variables[child], names, *evidence))
    return tuple(sorted(found, key=lambda one: (one.condition, variables.index(one.variable))))


def unchanged_conditions(
    of_condition: NDArray[np.int64], rows: NDArray[np.int64]
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Whether each variable has its unchanged mechanism in each condition, `[d, n_conditions]`, and ties, `[d]`.

    `of_condition` `[d, n_conditions]` is the class of each variable in each condition. A variable is tied if several
    choices of the unchanged class are equally good, so that only the numbers of rows decide.
    """
    d, n_conditions = of_condition.shape
    like = [of_condition == of_condition[:, [u]] for u in range(n_conditions)]

    def rank(u: int) -> tuple[int, int, int]:
        whole = like[u].all(axis=0)
        return int(whole.sum()), int(like[u].sum()), int(rows[whole].sum())

    best = max(range(n_conditions), key=rank)
    if rank(best)[0] >= MIN_UNCHANGED:
        equal = [u for u in range(n_conditions) if rank(u)[:2] == rank(best)[:2]]
        return like[best], np.any([(like[u] != like[best]).any(axis=1) for u in equal], axis=0)

    def size(v: int, u: int) -> tuple[int, int]:
        return int(like[u][v].sum()), int(rows[like[u][v]].sum())

    each = [[size(v, u) for u in range(n_conditions)] for v in range(d)]
    unchanged = np.stack([like[sizes.index(max(sizes))][v] for v, sizes in enumerate(each)])
    equal_size = [sum(one[0] == max(sizes)[0] for one in sizes) > max(sizes)[0] for sizes in each]
    return unchanged, np.array(equal_size)


def found_targets(changes: tuple[MechanismChange, ...], schema: Schema) -> dict[str, Targets]:
    """The changed variables by silo and condition, as in `Schema.targets`; silos without changes are omitted."""
    by_condition: dict[str, list[str]] = {}
    for one in changes:
        by_condition.setdefault(one.condition, []).append(one.variable)
    each = {
        silo: tuple(tuple(by_condition.get(name, ())) for name in names)
        for silo, names in schema.named_conditions.items()
    }
    return {silo: own for silo, own in each.items() if any(own)}
