"""Compiled functions on graphs, which searches call thousands of times (`cpdag.py` has the functions for other code).

- `directs`, `implied_arrows`, `closure`: Meek's rules, for one edge, for all edges once, and until no rule applies.
- `class_of_dag`: from a DAG to the CPDAG of its Markov equivalence class; `extension`: from a class to a DAG in it.
- `add_descendants`, `successor_lists`: descendants, and a sparse form of a graph.

A graph is a boolean adjacency `[d, d]`; `[i, j]` and `[j, i]` together are the undirected edge i — j. Up to `SMALL`
variables, the functions run uncompiled, because importing numba takes longer than one small graph.

Sources: Meek 1995, "Causal inference and causal explanation with background knowledge"; Dor & Tarsi 1992, "A simple
algorithm to construct a consistent extension of a partially oriented graph".
"""

import numpy as np

from ..compiled import njit

SMALL = 64
"""largest number of variables of a graph for which numba is not imported"""
ALL_RULES = np.ones(4, np.bool_)
"""the `rules` of a closure under all of Meek's rules"""


@njit(cache=True, uncompiled_up_to=SMALL)
def directs(joined, directed, lines, unclear, rules, i, j):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    """Whether one of Meek's `rules` directs the undirected edge i — j as i → j.

    - R1: k → i — j with k, j not adjacent: j → i would be a new v-structure.
    - R2: i → k → j: j → i would close a cycle.
    - R3: i — k → j and i — m → j with k, m not adjacent: j → i would force the v-structure k → i ← m.
    - R4: i — k → m → j with i, m adjacent and k, j not. It applies only with background knowledge.

    `joined` are all edges, symmetric, `directed` the arrows and `lines` the undirected edges, symmetric. `rules` `[4]`
    says which rules apply. No rule uses a triple (a, b, c) in `unclear` `[d, d, d]`, which is symmetric in a and c, or
    empty.
    """
    for k in range(len(joined)):
        if directed[k, i]:
            if rules[0] and not joined[k, j] and not (len(unclear) and unclear[k, i, j]):
                return True
        elif directed[i, k]:
            if rules[1] and directed[k, j]:
                return True
        elif lines[i, k] and directed[k, j]:
            for m in range(k):
                is_unclear = len(unclear) and unclear[k, i, m]
                if rules[2] and lines[i, m] and directed[m, j] and not joined[k, m] and not is_unclear:
                    return True
        elif lines[i, k] and k != j and not joined[k, j] and not (len(unclear) and unclear[k, i, j]):
            for m in range(len(joined)):
                if rules[3] and directed[k, m] and directed[m, j] and joined[i, m]:
                    return True
    return False


@njit(cache=True, uncompiled_up_to=SMALL)
def implied_arrows(joined, directed, lines, unclear, rules):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    """The directions `[d, d]` that one application of `rules` gives to `lines`; it may give both to an edge."""
    arrows = np.zeros_like(joined)
    for i in range(len(joined)):
        for j in range(len(joined)):
            arrows[i, j] = lines[i, j] and directs(joined, directed, lines, unclear, rules, i, j)
    return arrows


@njit(cache=True, uncompiled_up_to=SMALL)
def closure(pdag, rules):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    """`pdag` closed under Meek's `rules` `[4]`: no rule applies to an edge that is left undirected.

    Edges wait on a stack. After i → j has been directed, the edges to which a rule may newly apply wait again. These
    are the undirected edges at j, for which the new arrow can be k → i in R1, or the last arrow in R2 to R4. They are
    also the undirected edges between a child of j and i or a neighbour of i, for which it can be the first arrow of R2
    or R4.
    """
    d = len(pdag)
    joined, directed, lines = pdag | pdag.T, pdag & ~pdag.T, pdag & pdag.T
    unclear = np.zeros((0, 0, 0), np.bool_)
    stack, n, waits = np.empty((lines.sum(), 2), np.int64), 0, lines.copy()
    for i in range(d):
        for j in range(i + 1, d):
            if lines[i, j]:
                stack[n, 0], stack[n, 1] = i, j
                n += 1
    while n > 0:
        n -= 1
        i, j = stack[n, 0], stack[n, 1]
        waits[i, j] = waits[j, i] = False
        if not directs(joined, directed, lines, unclear, rules, i, j):
            i, j = j, i
            if not directs(joined, directed, lines, unclear, rules, i, j):
                continue
        lines[i, j] = lines[j, i] = False
        directed[i, j] = True
        for b in range(d):
            if lines[j, b]:
                n = _push(waits, j, b, stack, n)
        for k in range(d + 1):
            if k == d or lines[i, k]:
                a = k if k < d else i
                for b in range(d):
                    if directed[j, b] and lines[a, b]:
                        n = _push(waits, a, b, stack, n)
    return directed | lines


@njit(cache=True, uncompiled_up_to=SMALL)
def _push(waits, a, b, stack, n):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Put a — b on the stack of n edges unless it waits there; return the new number of edges."""
    if waits[a, b]:
        return n
    waits[a, b] = waits[b, a] = True
    stack[n, 0], stack[n, 1] = min(a, b), max(a, b)
    return n + 1


@njit(cache=True, uncompiled_up_to=SMALL)
def class_of_dag(dag):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    """The CPDAG of an acyclic `dag`: the skeleton with the v-structures, closed under Meek's rules (Theorem 3)."""
    joined = dag | dag.T
    pattern = joined.copy()
    for k in range(len(dag)):
        for i in range(len(dag)):
            if dag[i, k]:
                for j in range(i):
                    if dag[j, k] and not joined[i, j]:
                        pattern[k, i] = pattern[k, j] = False
    return closure(pattern, ALL_RULES)


@njit(cache=True, uncompiled_up_to=SMALL)
def extension(pdag, last_first):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    """A DAG with the skeleton, arrows and v-structures of `pdag`, and whether such a DAG exists.

    Dor & Tarsi 1992: find a variable that can be a sink, point its undirected edges at it, remove it, and repeat. Only
    neighbours of a removed variable can become sinks, so only they are examined again: after all variables that wait,
    or with `last_first` before them. Which of several DAGs is found depends on this order. With `last_first`, the
    search begins at the last variable, and a neighbour that waits already keeps its place.
    """
    d = len(pdag)
    rest, dag = pdag.copy(), pdag & ~pdag.T
    queue, waits, removed = np.empty(d + pdag.sum(), np.int64), np.ones(d, np.bool_), np.zeros(d, np.bool_)
    for v in range(d):
        queue[v] = v
    begin, end = 0, d
    while begin < end:
        if last_first:
            end -= 1
            sink = queue[end]
        else:
            sink = queue[begin]
            begin += 1
        waits[sink] = False
        if removed[sink] or not _can_be_sink(rest, sink):
            continue
        removed[sink] = True
        for v in range(d):
            if rest[v, sink]:
                dag[v, sink] = True
                rest[v, sink] = rest[sink, v] = False
                if not (last_first and waits[v]):
                    waits[v] = True
                    queue[end] = v
                    end += 1
    return dag, removed.all()


@njit(cache=True, uncompiled_up_to=SMALL)
def _can_be_sink(pdag, sink):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Whether no edge leaves `sink`, and each undirected neighbour of it is adjacent to all its other neighbours."""
    for v in range(len(pdag)):
        if pdag[sink, v]:
            if not pdag[v, sink]:
                return False
            for w in range(len(pdag)):
                if pdag[w, sink] and w != v and not pdag[v, w] and not pdag[w, v]:
                    return False
    return True


@njit(cache=True, uncompiled_up_to=SMALL)
def add_descendants(graph, start, reached):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    """Mark `start` and its descendants in `reached` `[d]`, whose marked variables must be marked with theirs."""
    if reached[start]:
        return
    stack, n = np.empty(len(graph), np.int64), 1
    stack[0], reached[start] = start, True
    while n > 0:
        n -= 1
        u = stack[n]
        for w in range(len(graph)):
            if graph[u, w] and not reached[w]:
                reached[w] = True
                stack[n] = w
                n += 1


@njit(cache=True, uncompiled_up_to=SMALL)
def successor_lists(graph):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    """The offset of the successors of each variable, `[d + 1]`, and the successors of all variables."""
    d = len(graph)
    first, successors = np.zeros(d + 1, np.int64), np.empty(graph.sum(), np.int64)
    for u in range(d):
        first[u + 1] = first[u]
        for v in range(d):
            if graph[u, v]:
                successors[first[u + 1]] = v
                first[u + 1] += 1
    return first, successors
