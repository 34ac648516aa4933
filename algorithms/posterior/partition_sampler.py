"""Sampling of DAGs from their posterior by partitions (Kuipers & Moffa 2017), with precomputed scores.

A DAG belongs to one ordered partition of the variables into layers: a variable without parents is in layer 0, and any
other variable is one layer after the last of its parents. So every variable outside layer 0 has a parent in the layer
before, and its other parents in earlier layers. The posterior weight of a partition is a product over variables: the
sum of exp(score) over the families that the layers allow. With Z(P) the sum over all families with parents in P, this
is Z(P) − Z(P without the layer before) for the set P of all earlier variables. Z is a sum of a few entries of `sums`,
the sums over subsets of each mask (Kuipers, Suter & Moffa 2022, §4).

A sweep has three steps. First, each variable is relocated by a Gibbs step: its place is drawn among all layers and all
new layers between them, given the layers of the others. So one variable splits, joins or leaves a layer without a
rejected proposal. Second, a graph is drawn exactly from the partition. Third, edges of the graph are reversed with new
parents of both ends (Metropolis), which Kuipers & Moffa (§6) combine with partitions to leave local modes. The next
sweep starts from the partition of this graph.

All sums are logarithms: the scores of graphs that contain an edge in opposite directions differ by thousands. A
difference below rounding has `NEGLIGIBLE` of the sum; such partitions have no noticeable share in the posterior.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..compiled import njit
from ..core.schema import FloatArray
from .family_space import FamilySpace

NEGLIGIBLE = 1e-15
"""share of a sum that a smaller difference of sums is replaced by"""
EXCLUDED = -1e8
"""score of an excluded family, relative to the best family of its child"""
REVERSALS = 2
"""proposals to reverse an edge in each sweep, in multiples of the number of variables"""
MIN_EXPONENT = -40.0
"""terms of a sum below this, relative to the largest term, are rounding"""


@dataclass(frozen=True)
class ScoreSums:
    """The score of every family relative to the best of its child, and its log-sums over the subsets of each mask."""

    space: FamilySpace
    scores: FloatArray
    """`[d, masks, slots]`"""
    sums: FloatArray
    """`[d, masks, slots]`"""


def score_sums(scores: FloatArray, space: FamilySpace) -> ScoreSums:
    """The log-sums of the `scores` `[d, masks, slots]` of all families, −∞ for an excluded family."""
    relative = np.maximum(scores - scores.max(axis=(1, 2), keepdims=True), EXCLUDED)
    sums = relative.copy()
    for b in range(space.candidates.shape[1]):
        with_bit = sums.reshape(len(sums), -1, 2, 1 << b, sums.shape[2])
        with_bit[:, :, 1] = np.logaddexp(with_bit[:, :, 1], with_bit[:, :, 0])
    return ScoreSums(space, relative, sums)


def layers_of(dag: NDArray[np.bool_]) -> NDArray[np.int64]:
    """The layer of each variable of `dag` `[d, d]`: the length of the longest path that ends in it."""
    layers, reached = np.zeros(len(dag), np.int64), np.ones(len(dag), np.bool_)
    while reached.any():
        reached = np.asarray(dag[reached].any(axis=0))
        layers[reached] += 1
    return layers


def sample_dags(
    scored: ScoreSums, layers: NDArray[np.int64], graphs: int, sweeps: int, rng: np.random.Generator
) -> NDArray[np.bool_]:
    """`graphs` sampled DAGs `[graphs, d, d]`, each after `sweeps` further sweeps; `layers` becomes the last state."""
    d, space = len(layers), scored.space
    dags = np.zeros((graphs, d, d), np.bool_)
    tables = (space.candidates, space.outside, space.bit, space.slot, scored.scores, scored.sums)
    for dag in dags:
        of_places, of_graph = rng.random((sweeps, d)), rng.random((sweeps, d, 2))
        _sweep(layers, tables, of_places, of_graph, rng.random((sweeps, REVERSALS * d, 6)), dag)
    return dags


@njit(cache=True)
def _sum(v, layer, last, tables):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Ln Z of the variables in layers up to `last`, before that of `v`, and the mask of the candidates among them."""
    candidates, mask = tables[0], 0
    for i in range(candidates.shape[1]):
        u = candidates[v, i]
        if u >= 0 and layer[u] <= last:
            mask |= 1 << i
    return _sum_of_slots(v, mask, layer, last, tables), mask


@njit(cache=True)
def _sum_of_slots(v, mask, layer, last, tables):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    outside, row = tables[1], tables[5][v, mask]
    greatest = row[0]
    for s in range(outside.shape[1]):
        u = outside[v, s]
        if u >= 0 and layer[u] <= last and row[s + 1] > greatest:
            greatest = row[s + 1]
    total, least = 0.0, greatest + MIN_EXPONENT
    if row[0] > least:
        total = math.exp(row[0] - greatest)
    for s in range(outside.shape[1]):
        u = outside[v, s]
        if row[s + 1] > least and u >= 0 and layer[u] <= last:
            total += math.exp(row[s + 1] - greatest)
    return greatest + math.log(total)


@njit(cache=True)
def _with(v, x, total, mask, layer, last, tables):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Ln Z of `v` with one more earlier variable `x`, from the `total` and `mask` without it."""
    _, _, bit, slot, _, sums = tables
    if slot[v, x] > 0:
        return np.logaddexp(total, sums[v, mask, slot[v, x]])
    if bit[v, x] < 0:
        return total
    return _sum_of_slots(v, mask | 1 << bit[v, x], layer, last, tables)


@njit(cache=True)
def _log_difference(whole, part):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    return whole + math.log(max(-math.expm1(part - whole), NEGLIGIBLE))


@njit(cache=True)
def _sweep(layer, tables, of_places, of_graph, of_reversals, dag):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Update the partition `layer` and its graph `dag` by as many sweeps as there are uniform numbers for."""
    d = len(layer)
    for sweep in range(len(of_places)):
        for x in range(d):
            _relocate(x, layer, tables, of_places[sweep, x])
        dag[:] = False
        for v in range(d):
            _draw_family(v, layer, layer[v] - 1, layer[v] > 0, tables, of_graph[sweep, v], dag)
        for move in range(of_reversals.shape[1]):
            _reverse(dag, tables, of_reversals[sweep, move])
        _set_layers(dag, layer)


@njit(cache=True)
def _set_layers(dag, layer):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Write the partition of `dag` to `layer`."""
    d = len(dag)
    parents = dag.sum(axis=0)
    waiting = np.empty(d, np.int64)
    first, end = 0, 0
    for v in range(d):
        if parents[v] == 0:
            layer[v], waiting[end] = 0, v
            end += 1
    while first < end:
        u = waiting[first]
        first += 1
        for v in range(d):
            if dag[u, v]:
                parents[v] -= 1
                if parents[v] == 0:
                    layer[v], waiting[end] = layer[u] + 1, v
                    end += 1


@njit(cache=True)
def _mark_descendants(dag, v, layer):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Set `layer` to 0 for the variables that may be parents of `v`, and to 2 for `v` and its descendants."""
    d = len(dag)
    layer[:] = 0
    layer[v] = 2
    waiting = np.empty(d, np.int64)
    waiting[0], first, end = v, 0, 1
    while first < end:
        u = waiting[first]
        first += 1
        for w in range(d):
            if dag[u, w] and layer[w] == 0:
                layer[w], waiting[end] = 2, w
                end += 1


@njit(cache=True)
def _reverse(dag, tables, uniform):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Propose to reverse an edge i → j of `dag` with new parents of both (Grzegorczyk & Husmeier 2008, §3.1).

    New parents of i include j and no descendant of i; then new parents of j are drawn among those that close no cycle.
    """
    d, edges = len(dag), dag.sum()
    if edges == 0:
        return
    at = min(int(uniform[0] * edges), edges - 1)
    i, j = 0, 0
    for edge in range(d * d):
        if dag[edge // d, edge % d]:
            if at == 0:
                i, j = edge // d, edge % d
                break
            at -= 1
    if tables[2][i, j] < 0 and tables[3][i, j] == 0:
        return
    old_i, old_j, layer = dag[:, i].copy(), dag[:, j].copy(), np.empty(d, np.int64)
    dag[:, i], dag[:, j] = False, False
    _mark_descendants(dag, j, layer)  # what returning would take
    layer[i] = 1
    change = -_log_difference(_sum(j, layer, 1, tables)[0], _sum(j, layer, 0, tables)[0])
    dag[:, j] = old_j
    _mark_descendants(dag, i, layer)
    change -= _sum(i, layer, 0, tables)[0]
    dag[:, j] = False
    _mark_descendants(dag, i, layer)
    layer[j] = 1
    change += _log_difference(_sum(i, layer, 1, tables)[0], _sum(i, layer, 0, tables)[0])
    _draw_family(i, layer, 1, True, tables, uniform[1:3], dag)
    _mark_descendants(dag, j, layer)
    change += _sum(j, layer, 0, tables)[0]
    _draw_family(j, layer, 0, False, tables, uniform[3:5], dag)
    if not dag[j, i] or math.log(uniform[5]) >= change + math.log(edges / dag.sum()):
        dag[:, i], dag[:, j] = old_i, old_j


@njit(cache=True)
def _relocate(x, layer, tables, uniform):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Draw the place of `x`: position 2k is a new layer before layer k of the other variables, 2k + 1 is layer k."""
    d, last = len(layer), _take_out(x, layer)
    log_weight = _weights_of_others(x, layer, last, tables)
    before = 0.0
    for k in range(last + 1):
        whole, _ = _sum(x, layer, k - 1, tables)
        own = _log_difference(whole, before) if k else whole
        before = whole
        log_weight[2 * k] += own
        if k < last:
            log_weight[2 * k + 1] += own
    place = _chosen(log_weight[: 2 * last + 1], uniform)
    layer[x] = place // 2
    if place % 2 == 0:
        for u in range(d):
            if u != x and layer[u] >= place // 2:
                layer[u] += 1


@njit(cache=True)
def _take_out(x, layer):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Place `x` after all other variables, whose layers become 0, 1, ..., and return the number of these layers."""
    own, d = layer[x], len(layer)
    layer[x] = d + 1
    alone = not (layer == own).any()
    last = 0
    for u in range(d):
        if u != x:
            layer[u] -= alone and layer[u] > own
            last = max(last, layer[u] + 1)
    return last


@njit(cache=True)
def _weights_of_others(x, layer, last, tables):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """The log-weight of all variables but `x` for each position of `x`; entry q is first the change from q − 1 to q."""
    log_weight = np.zeros(2 * last + 2)
    for u in range(len(layer)):
        k = layer[u]
        if u == x:
            continue
        whole, mask = _sum(u, layer, k - 1, tables)
        joined = _with(u, x, whole, mask, layer, k - 1, tables)
        directly_before = _log_difference(joined, whole)
        if k == 0:
            log_weight[0] += directly_before
            log_weight[1] += whole - directly_before
            continue
        part, mask = _sum(u, layer, k - 2, tables)
        earlier = _log_difference(joined, _with(u, x, part, mask, layer, k - 2, tables))
        in_layer, later = _log_difference(joined, part), _log_difference(whole, part)
        log_weight[0] += earlier
        log_weight[2 * k - 1] += in_layer - earlier
        log_weight[2 * k] += directly_before - in_layer
        log_weight[2 * k + 1] += later - directly_before
    return np.cumsum(log_weight)


@njit(cache=True)
def _draw_family(v, layer, last, some_in_last, tables, uniform, dag):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Draw the parents of `v` among the variables in layers up to `last`, with some in `last` if so, into `dag`."""
    candidates, outside, _, _, scores, _ = tables
    _, mask = _sum(v, layer, last, tables)
    _, earlier = _sum(v, layer, last - 1, tables)
    slot = _chosen(_slot_weights(v, layer, last, some_in_last, mask, earlier, tables), uniform[0])
    free = not some_in_last or (slot > 0 and layer[outside[v, slot - 1]] == last)
    weight = np.full(mask + 1, -np.inf)
    for family in range(mask + 1):
        if family & ~mask == 0 and (free or family & ~earlier != 0):
            weight[family] = scores[v, family, slot]
    family = _chosen(weight, uniform[1])
    for i in range(candidates.shape[1]):
        if family >> i & 1:
            dag[candidates[v, i], v] = True
    if slot > 0:
        dag[outside[v, slot - 1], v] = True


@njit(cache=True)
def _slot_weights(v, layer, last, some_in_last, mask, earlier, tables):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """The log-weight of each slot of `v`: the sum over its families, less those without a parent in `last` if so."""
    outside, sums = tables[1], tables[5]
    weight = np.full(outside.shape[1] + 1, -np.inf)
    for s in range(len(weight)):
        at = layer[outside[v, s - 1]] if s else -1
        if s and (outside[v, s - 1] < 0 or at > last):
            continue
        if not some_in_last or (s and at == last):
            weight[s] = sums[v, mask, s]
        elif mask != earlier:
            weight[s] = _log_difference(sums[v, mask, s], sums[v, earlier, s])
    return weight


@njit(cache=True)
def _chosen(log_weight, uniform):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """An index drawn in proportion to exp(`log_weight`); 0 if all of these are zero."""
    greatest = log_weight.max()
    if greatest == -np.inf:
        return 0
    total = np.cumsum(np.exp(log_weight - greatest))
    return min(int(np.searchsorted(total, uniform * total[-1], side="right")), len(log_weight) - 1)
