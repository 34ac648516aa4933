"""FedC2SL (Wang, Ma & Wang 2023): a federated test of independence (Algorithm 1), and PC that uses it (Algorithm 2).

Tables are of integer codes from 0. A graph is a matrix `[d, d]`: G[i, j] and G[j, i] for i − j, only G[i, j] for i → j.
"""

from collections.abc import Callable, Iterable, Sequence
from itertools import combinations

import numpy as np
from numpy.typing import NDArray
from scipy.special import gamma
from scipy.stats import chi2

Codes = NDArray[np.int64]
Graph = NDArray[np.bool_]
IndependenceTest = Callable[[int, int, tuple[int, ...]], bool]


def stratified_counts(table: Codes, levels: Sequence[int], x: int, y: int, given: tuple[int, ...]) -> Codes:
    """v_xyz, the counts of a silo `[n_strata, |X|, |Y|]` with a stratum for each combination of levels of `given`."""
    strata = [levels[k] for k in given]
    stratum = np.ravel_multi_index(table[:, given].T, strata) if given else np.zeros(len(table), np.int64)
    v = np.zeros((int(np.prod(strata, dtype=np.int64)), levels[x], levels[y]), np.int64)
    np.add.at(v, (stratum, table[:, x], table[:, y]), 1)
    return v


def fed_ci(
    silos: Sequence[Codes],
    levels: Sequence[int],
    x: int,
    y: int,
    given: tuple[int, ...],
    rng: np.random.Generator,
    projections: int = 50,
) -> tuple[float, int]:
    """Q̂ and its degrees of freedom for X ⊥ Y | Z (Algorithm 1); the silos send margins and random projections.

    Three corrections of the paper: line 19 multiplies the projections, where the paper prints a sum (geometric mean
    estimator, Li 2008); line 15 divides by the root of the expected count v̄, not of v; and the degrees of freedom of a
    stratum count only the levels that occur in it.
    """
    v = [stratified_counts(table, levels, x, y, given) for table in silos]
    Q, dof, length = 0.0, 0, projections
    for z in range(len(v[0])):
        v_xz, v_yz = sum(one[z].sum(1) for one in v), sum(one[z].sum(0) for one in v)  # SecureAgg, lines 8-10
        present = np.ix_(v_xz > 0, v_yz > 0)
        expected = np.outer(v_xz, v_yz)[present] / max(v_xz.sum(), 1)  # line 11
        dof_z = int(np.prod(np.array(expected.shape) - 1)) if expected.size else 0
        if dof_z > 0:
            P = rng.normal(0.0, np.sqrt(2.0), (length, expected.size))  # line 12: 2-stable
            u = [((one[z][present] - expected / len(v)) / np.sqrt(expected)).ravel() for one in v]  # line 15
            e = np.sum([P @ u_i for u_i in u], axis=0)  # lines 16 and 18
            constant = 2 / np.pi * gamma(2 / length) * gamma(1 - 1 / length) * np.sin(np.pi / length)
            Q += float(np.exp(np.log(np.abs(e)).sum() * 2 / length - length * np.log(constant)))  # line 19
            dof += dof_z
    return Q, dof


def chi_square(
    silos: Sequence[Codes], levels: Sequence[int], x: int, y: int, given: tuple[int, ...]
) -> tuple[float, int]:
    """Q̂ and its degrees of freedom from the summed counts (§4.2): what `fed_ci` estimates."""
    v = np.sum([stratified_counts(table, levels, x, y, given) for table in silos], axis=0)
    expected = v.sum(2)[:, :, None] * v.sum(1)[:, None, :] / np.maximum(v.sum((1, 2)), 1)[:, None, None]
    Q = (np.where(expected > 0, v - expected, 0.0) ** 2 / np.where(expected > 0, expected, 1.0)).sum()
    levels_in = (v.sum(2) > 0).sum(1), (v.sum(1) > 0).sum(1)
    return float(Q), int((np.maximum(levels_in[0] - 1, 0) * np.maximum(levels_in[1] - 1, 0)).sum())


def decides(statistic: Callable[[int, int, tuple[int, ...]], tuple[float, int]], alpha: float) -> IndependenceTest:
    """The test that accepts X ⊥ Y | Z unless the `statistic` exceeds its χ² quantile (Algorithm 1, lines 25-26)."""

    def independent(x: int, y: int, given: tuple[int, ...]) -> bool:
        Q, dof = statistic(x, y, given)
        return dof == 0 or float(chi2.sf(Q, dof)) > alpha

    return independent


def pc(d: int, independent: IndependenceTest) -> Graph:
    """The CPDAG that PC finds for `d` variables (Algorithm 2).

    The paper simplifies the skeleton. Here, the loops are those of PC-stable: levels of growing conditioning sets,
    pairs, and subsets of the neighbours that either variable has when the level begins.
    """
    G = ~np.eye(d, dtype=bool)

    def subsets(sizes: Iterable[int], *pools: set[int]) -> set[tuple[int, ...]]:
        return {given for pool in pools for size in sizes for given in combinations(sorted(pool), size)}

    level = 0
    while G.sum(0).max() > level:
        near = neighbours(G)
        for x, y in combinations(range(d), 2):
            sets = subsets([level], near[x] - {y}, near[y] - {x})
            if G[x, y] and any(independent(x, y, given) for given in sorted(sets)):
                G[x, y] = G[y, x] = False
        level += 1
    near = neighbours(G)
    for z in range(d):  # lines 14-17: unshielded triples x − z − y that no separating set with z explains
        for x, y in combinations(sorted(near[z]), 2):
            if y not in near[x]:
                sets = subsets(range(level), near[x], near[y])
                separating = [given for given in sets if independent(x, y, given)]
                if separating and not any(z in given for given in separating):
                    G[z, x], G[z, y] = not G[x, z], not G[y, z]  # an arrow of an earlier triple stays
    return orient(G)


def neighbours(G: Graph) -> list[set[int]]:
    """The neighbours of each variable in a skeleton."""
    return [{int(k) for k in np.flatnonzero(row)} for row in G]


def orient(G: Graph) -> Graph:
    """`G` after the rules of Meek (Algorithm 2, lines 18-23)."""
    d = len(G)
    changed = True
    while changed:
        changed = False
        arrow, line, adjacent = G & ~G.T, G & G.T, G | G.T
        for x, y in zip(*np.nonzero(line), strict=True):
            one = any(arrow[z, x] and not adjacent[z, y] for z in range(d))
            two = any(arrow[x, z] and arrow[z, y] for z in range(d))
            into = [z for z in range(d) if line[x, z] and arrow[z, y]]
            three = any(not adjacent[z, w] for z, w in combinations(into, 2))
            if one or two or three:
                G[y, x], changed = False, True
                break
    return G
