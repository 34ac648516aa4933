"""GES as stated in its paper, in short readable code: the reference for the compiled search.

Chickering 2002, "Optimal structure identification with greedy search". A graph is a CPDAG as a boolean matrix `[d, d]`.
If only `[i, j]` is set, the edge is i → j; if `[j, i]` is set as well, it is i — j. `score(child, parents)` is the
score of one family, and greater is better.
"""

from itertools import combinations, permutations

import numpy as np

from fedbnsl.algorithms.graphs.cpdag import cpdag, extend


def ges(d, score):
    """From the empty graph the best insertion while any gains, then the best deletion while any gains."""
    graph = np.zeros((d, d), bool)
    for operators in (insertions, deletions):
        while (best := max(operators(graph, score), key=lambda one: one[0], default=(0.0, graph)))[0] > 1e-9:
            graph = cpdag(extend(best[1]))
    return graph


def insertions(graph, score):
    """Every valid INSERT(x, y, T): its gain, and the graph with x → y and t → y for all t in T (Theorem 15)."""
    for y, x in permutations(range(len(graph)), 2):
        if x in adjacent(graph, y):
            continue
        na = neighbours(graph, y) & adjacent(graph, x)
        for T in subsets(neighbours(graph, y) - adjacent(graph, x)):
            if is_clique(graph, na | T) and not semi_directed_path(graph, y, x, na | T):
                after = graph.copy()
                after[x, y], after[y, list(T)] = True, False
                given = na | T | parents(graph, y)
                yield score(y, given | {x}) - score(y, given), after


def deletions(graph, score):
    """Every valid DELETE(x, y, H): its gain, and the graph without the edge, y → h, x → h for h in H (Theorem 17)."""
    for y, x in permutations(range(len(graph)), 2):
        if x not in neighbours(graph, y) | parents(graph, y):
            continue
        na = neighbours(graph, y) & adjacent(graph, x)
        for H in subsets(na):
            if is_clique(graph, na - H):
                after = graph.copy()
                after[x, y] = after[y, x] = False
                after[list(H), y] = after[list(H & neighbours(graph, x)), x] = False
                given = (na - H | parents(graph, y)) - {x}
                yield score(y, given) - score(y, given | {x}), after


def neighbours(graph, v):
    return set(np.flatnonzero(graph[v] & graph[:, v]).tolist())


def parents(graph, v):
    return set(np.flatnonzero(graph[:, v] & ~graph[v]).tolist())


def adjacent(graph, v):
    return set(np.flatnonzero(graph[v] | graph[:, v]).tolist())


def subsets(variables):
    return (set(chosen) for size in range(len(variables) + 1) for chosen in combinations(sorted(variables), size))


def is_clique(graph, variables):
    return all(j in adjacent(graph, i) for i, j in combinations(variables, 2))


def semi_directed_path(graph, start, end, blocked):
    """Whether a path whose edges are undirected or point forwards leads from `start` to `end` around `blocked`."""
    reached, waiting = {start}, [start]
    while waiting:
        onward = set(np.flatnonzero(graph[waiting.pop()]).tolist()) - reached - blocked
        reached |= onward
        waiting += onward
    return end in reached
