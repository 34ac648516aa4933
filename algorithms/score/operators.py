r"""The operators on equivalence classes: their validity and their gains.

For a pair (x, y) in a CPDAG, Ne(y) are the neighbours of y (by undirected edges), Pa(y) its parents, and NA the
neighbours of y that are adjacent to x. s(y, P) is the score of y with the parents P. Every operator is identified by
a clique C of neighbours of y (Chickering 2002, Theorems 15-18):

- INSERT x → y, not adjacent: C = NA ∪ T for neighbours T of y not adjacent to x; valid if C is a clique and every
  semi-directed path from y to x goes through C. The gain is s(y, C ∪ Pa(y) ∪ {x}) − s(y, C ∪ Pa(y)).
- WARY_INSERT: INSERT, but only of pairs with a gain for T = ∅. The published FedGES program extends T from ∅, and
  never joins a pair without an initial gain (Torrijos et al. 2024, §4.1). With few rows, this rule excludes many
  spurious edges.
- DELETE x → y or x — y: C = NA \ H; valid if C is a clique. The gain is s(y, C ∪ Pa(y) \ {x}) − s(y, C ∪ Pa(y) ∪
  {x}).
- TURN y → x or y — x into x → y (Hauser & Bühlmann 2012, Propositions 31-34): take a member of the class in which C
  are the neighbours of y that point at y, and reverse the edge in this member. The conditions are, with N for NA:

  - y → x: C is a clique with N ⊂ C, and every path from y to x except the edge goes through C or a neighbour of
    x. In the member, no neighbour of x points at x.
  - y — x: C is a clique, not within N, and C ∩ N separates C \ N from N \ C among the neighbours of y. In the member,
    C ∩ N are the neighbours of x, besides y, that point at x.

Checking a condition on paths takes a search through the whole graph, so it is left to the end: `check` requests it.
"""

import numpy as np

from ..compiled import njit
from ..graphs.kernels import extension
from .cliques import (
    MAX_CLIQUES,
    NO,
    NO_GAIN,
    NO_VARIABLE,
    YES,
    contains,
    copy_into,
    neighbours_and_parents,
    next_clique,
    open_path,
    score_with,
    start_clique,
    turn_to,
    workspace,
)


@njit(cache=True)
def best_turn(graph, x, y, near, parents, space, check, tables):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    """The greatest gain of turning the edge into x → y, NaN if a score is unknown, and the size of C.

    `near` and `parents` are those of y. C is written to `space.best`. Without `check`, the condition on paths is
    ignored.
    """
    d = len(graph)
    near_x, parents_x = np.empty(d, np.int64), np.empty(d, np.int64)
    n_near_x, n_parents_x = neighbours_and_parents(graph, x, near_x, parents_x)
    near_x, parents_x = near_x[:n_near_x], parents_x[:n_parents_x]
    directed = not graph[x, y]
    best, best_size, unknown = NO_GAIN, 0, False
    size, n = start_clique(graph, x, near, directed, YES, space.clique, space.candidates)
    base, tried = size, 0
    while size >= 0 and tried < MAX_CLIQUES:
        clique = space.clique[:size]
        tried += 1
        if directed or _can_turn(graph, x, near, clique):
            gain = _turn_gain(graph, x, y, parents, parents_x, clique, directed, space.family, tables)
            if np.isnan(gain):
                unknown = True
            elif gain > best and not (check and directed and open_path(graph, y, x, clique, near_x, NO, space)):
                best, best_size = gain, size
                copy_into(clique, space.best)
        size = next_clique(graph, space.candidates[:n], space.clique, space.places, base, size)
    return (np.nan if unknown else best), best_size


@njit(cache=True)
def _turn_gain(graph, x, y, parents, parents_x, clique, directed, family, tables):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    shared = clique[:0].copy() if directed else _adjacent_to(graph, x, clique)
    before_y = score_with(y, parents, NO_VARIABLE, clique, NO_VARIABLE, family, tables)
    after_y = score_with(y, parents, NO_VARIABLE, clique, x, family, tables)
    before_x = score_with(x, parents_x, y, shared, y, family, tables)
    after_x = score_with(x, parents_x, y, shared, NO_VARIABLE, family, tables)
    return after_y - before_y + after_x - before_x


@njit(cache=True)
def _adjacent_to(graph, x, variables):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    adjacent = np.empty(len(variables), np.int64)
    n = 0
    for v in variables:
        if graph[v, x] or graph[x, v]:
            adjacent[n] = v
            n += 1
    return adjacent[:n]


@njit(cache=True)
def _can_turn(graph, x, near, clique):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Whether C has a member outside N, and C ∩ N separates C ∖ N from N ∖ C within `near`, Ne(y)."""
    d = len(graph)
    visited = np.zeros(d, np.bool_)
    stack = np.empty(d, np.int64)
    n = 0
    for v in clique:
        visited[v] = True
        if not (graph[v, x] or graph[x, v]):
            stack[n] = v
            n += 1
    if n == 0:
        return False
    while n > 0:
        n -= 1
        u = stack[n]
        for v in near:
            if v != x and not visited[v] and (graph[u, v] or graph[v, u]):
                if graph[v, x] or graph[x, v]:
                    return False
                visited[v] = True
                stack[n] = v
                n += 1
    return True


@njit(cache=True)
def apply_turn(graph, x, y, clique):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    """The DAG after the valid turn of the edge into x → y with clique C."""
    pdag = graph.copy()
    directed = not graph[x, y]
    for v in range(len(graph)):
        in_clique = contains(v, clique)
        if v != x and graph[v, y] and graph[y, v]:
            if in_clique:
                pdag[y, v] = False
            else:
                pdag[v, y] = False
        if v != y and graph[v, x] and graph[x, v]:
            if in_clique and not directed:
                pdag[x, v] = False
            else:
                pdag[v, x] = False
    pdag[x, y] = False
    dag, _ = extension(pdag, YES)
    dag[y, x], dag[x, y] = False, True
    return dag


INSERT, WARY_INSERT, DELETE, TURN = 0, 1, 2, 3
NEW_EDGE = (INSERT, WARY_INSERT)


@njit(cache=True)
def refresh(kind, graph, stale, gain, tables):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    """Update `gain[y, x]` where `stale[y, x]` and the scores are known; return the number of pairs that stay stale.

    `gain[y, x]` is then the greatest gain of an operator of `kind` on (x, y), ignoring the condition on paths. Unknown
    scores become pending.
    """
    space = workspace(len(graph))
    n_stale = 0
    for y in range(len(graph)):
        if not stale[y].any():
            continue
        # The lists are made once for all x: making them takes d steps, and looking up a score only a few.
        near, parents = turn_to(graph, y, space)
        for x in range(len(graph)):
            if stale[y, x]:
                best, _ = best_of_pair(kind, graph, x, y, near, parents, space, NO, tables)
                if np.isnan(best):
                    n_stale += 1
                else:
                    gain[y, x] = best
                    stale[y, x] = False
    return n_stale


@njit(cache=True)
def best_operator(kind, graph, x, y, space, tables):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    """The gain and the clique C of the best valid operator of `kind` on (x, y); all scores must be known.

    `space` has the successors of `graph`.
    """
    near, parents = turn_to(graph, y, space)
    gain, size = best_of_pair(kind, graph, x, y, near, parents, space, YES, tables)
    return gain, space.best[:size].copy()


@njit(cache=True)
def best_of_pair(kind, graph, x, y, near, parents, space, check, tables):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    """The best gain of the pair, NaN if a score is unknown, and the size of its clique, which is in `space.best`.

    `near` and `parents` are those of y, from `turn_to`. With `check`, only operators that pass the condition on paths
    count.
    """
    inserts = kind in NEW_EDGE
    if x == y or (inserts and (graph[x, y] or graph[y, x])) or (kind == DELETE and not graph[x, y]):
        return NO_GAIN, 0
    if kind == TURN:
        return best_turn(graph, x, y, near, parents, space, check, tables) if graph[y, x] else (NO_GAIN, 0)
    size, n = start_clique(graph, x, near, inserts, inserts, space.clique, space.candidates)
    if size < 0:
        return NO_GAIN, 0
    best, best_size = NO_GAIN, 0
    base, tried, unknown = size, 0, False
    while size >= 0 and tried < MAX_CLIQUES:
        clique = space.clique[:size]
        gain = _gain(inserts, x, y, parents, clique, space, tables)
        if kind == WARY_INSERT and tried == 0 and gain <= 0:
            return NO_GAIN, 0
        tried += 1
        if np.isnan(gain):
            unknown = True
        elif gain > best and not (check and inserts and open_path(graph, y, x, clique, clique[:0], YES, space)):
            best, best_size = gain, size
            copy_into(clique, space.best)
        size = next_clique(graph, space.candidates[:n], space.clique, space.places, base, size)
    return (np.nan if unknown else best), best_size


@njit(cache=True)
def _gain(inserts, x, y, parents, clique, space, tables):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    shared = inserts and len(clique) <= 1  # most insertions on y share these scores
    at = clique[0] if len(clique) == 1 else len(space.near)
    without = space.without[at] if shared else np.nan
    if np.isnan(without):
        without = score_with(y, parents, x, clique, NO_VARIABLE, space.family, tables)
        if shared:
            space.without[at] = without
    with_x = score_with(y, parents, x, clique, x, space.family, tables)
    return with_x - without if inserts else without - with_x


@njit(cache=True)
def apply_operator(kind, graph, x, y, clique):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    """A DAG of the class after the valid operator of `kind` on (x, y) with clique C (Chickering 2002, Def. 12, 13)."""
    if kind == TURN:
        return apply_turn(graph, x, y, clique)
    pdag = graph.copy()
    inserts = kind != DELETE
    pdag[x, y], pdag[y, x] = inserts, False
    for v in range(len(graph)):
        if v == x or not (graph[v, y] and graph[y, v]):
            continue
        adjacent = graph[v, x] or graph[x, v]
        in_clique = contains(v, clique)
        if inserts and in_clique and not adjacent:
            pdag[y, v] = False
        elif not inserts and adjacent and not in_clique:
            pdag[v, y] = False
            if graph[x, v]:
                pdag[v, x] = False
    dag, _ = extension(pdag, YES)
    return dag
