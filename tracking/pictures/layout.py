"""A layered drawing of a directed graph (Sugiyama, Tagawa & Toda 1981): causes above their effects.

The four classic steps are: reverse arcs until there is no cycle, assign nodes to layers by longest path, order each
layer to reduce crossings, and choose coordinates. An edge that spans several layers gets its own slot on each layer
that it passes, so that it never runs through a node. Lengths are inches; y grows upwards.

The functions are in the order of the steps. The search for the order of the rows begins from several starts. From each
start, barycentre sweeps (Sugiyama, Tagawa & Toda 1981) alternate with exchanges of neighbours that reduce crossings.

igraph is not used, because it is under the GPL. Its drawings are also 2 to 7 times as wide, because a slot gets as much
room as a node, and have 3 to 4.5 times as many crossings (`benchmarks/layout.py`).
"""

from bisect import bisect_right, insort
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from scipy.sparse import csr_array


IndexArc = tuple[int, int]


def reverse_feedback_arcs(n: int, arcs: Sequence[IndexArc]) -> list[IndexArc]:
    """All `arcs`, where each arc that would close a cycle with earlier arcs is reversed.

    The reversal is for drawing only. `graphs.dag.break_cycles` drops the weakest edges of a learned graph.
    """
    reaches = np.eye(n, dtype=bool)
    turned: list[IndexArc] = []
    for source, target in arcs:
        upper, lower = (target, source) if reaches[target, source] else (source, target)
        reaches[reaches[:, upper]] |= reaches[lower]
        turned.append((upper, lower))
    return turned


def topological(n: int, arcs: Sequence[IndexArc]) -> list[int]:
    """The nodes, sources before targets; `arcs` must be acyclic.

    The order of `arcs` breaks ties, because the first arcs matter most. In `graphs.dag.topological_order`, the index
    of a node breaks ties.
    """
    children: list[list[int]] = [[] for _ in range(n)]
    waiting = [0] * n
    for upper, lower in arcs:
        children[upper].append(lower)
        waiting[lower] += 1
    ready = [node for node in range(n) if not waiting[node]]
    for node in ready:
        for child in children[node]:
            waiting[child] -= 1
            if not waiting[child]:
                ready.append(child)
    return ready


def assign_layers(n: int, arcs: Sequence[IndexArc], capacity: int) -> list[int]:
    """The layer of each node, with layer 0 on top; a node is below all its parents.

    A layer has at most `capacity` nodes. Nodes are then pulled towards their children, which makes arcs shorter. Nodes
    without arcs are on the last layers, with at most 2 `capacity` nodes each.
    """
    parents: list[set[int]] = [set() for _ in range(n)]
    children: list[set[int]] = [set() for _ in range(n)]
    for upper, lower in arcs:
        parents[lower].add(upper)
        children[upper].add(lower)
    joined = [node for node in topological(n, arcs) if parents[node] or children[node]]
    layer, filled = [0] * n, [0] * (2 * n + 1)
    for node in joined:
        highest = max((layer[parent] + 1 for parent in parents[node]), default=0)
        layer[node] = next(at for at in range(highest, len(filled)) if filled[at] < capacity)
        filled[layer[node]] += 1
    for node in reversed(joined):
        lowest = min((layer[child] - 1 for child in children[node]), default=layer[node])
        free = [at for at in range(lowest, layer[node], -1) if filled[at] < capacity]
        if free and len(children[node]) >= len(parents[node]):
            filled[layer[node]] -= 1
            layer[node] = free[0]
            filled[layer[node]] += 1
    return _without_gaps(layer, joined, 2 * capacity)


def _without_gaps(layer: list[int], joined: list[int], width: int) -> list[int]:
    """The layers renumbered from 0; isolated nodes are below all other nodes, with up to `width` nodes on a layer."""
    used = sorted({layer[node] for node in joined})
    renumbered = {node: used.index(layer[node]) for node in joined}
    alone = [node for node in range(len(layer)) if node not in renumbered]
    renumbered |= {node: len(used) + place // width for place, node in enumerate(alone)}
    return [renumbered[node] for node in range(len(layer))]


def with_slots(layers: Sequence[int], arcs: Sequence[IndexArc]) -> tuple[list[list[int]], list[list[int]]]:
    """The rows of nodes and slots, and the chain of each arc.

    A chain consists of the upper node, a slot on each layer in between, and the lower node. Slots are numbered after
    the nodes.
    """
    rows: list[list[int]] = [[] for _ in range(max(layers, default=-1) + 1)]
    for node, layer in enumerate(layers):
        rows[layer].append(node)
    chains, number = [], len(layers)
    for upper, lower in arcs:
        chain = [upper]
        for layer in range(layers[upper] + 1, layers[lower]):
            rows[layer].append(number)
            chain.append(number)
            number += 1
        chains.append([*chain, lower])
    return rows, chains


Rows = list[list[int]]

SWEEPS = 16
STARTS = 8
MANY_NODES = 1500
"""number of nodes and slots from which on the search has a single start"""


def order_rows(rows: Rows, chains: Sequence[Sequence[int]]) -> Rows:
    """The rows in the order with the fewest crossings that was found.

    A chain is an edge divided into pieces, with one node or slot on each row that it touches. The result is
    deterministic.
    """
    above, below = _neighbours(sum(map(len, rows)), chains)
    best, fewest = rows, crossings(rows, below)
    for start in range(STARTS if sum(map(len, rows)) < MANY_NODES else 1):
        shuffle = np.random.default_rng(start)
        current = [[int(node) for node in shuffle.permutation(row)] for row in rows] if start else rows
        for _ in range(2):
            current = _exchange(_sweep(current, above, below), above, below)
        crossed = crossings(current, below)
        if crossed < fewest:
            best, fewest = current, crossed
    return best


def crossings(rows: Rows, below: Sequence[Sequence[int]]) -> int:
    """The number of crossings between neighbouring rows; `below[node]` has the lower ends of the node's edge pieces."""
    total = 0
    for upper, lower in pairwise(rows):
        place = {node: at for at, node in enumerate(lower)}
        passed: list[int] = []
        for node in upper:
            ends = [place[other] for other in below[node]]
            total += sum(len(passed) - bisect_right(passed, end) for end in ends)
            for end in ends:
                insort(passed, end)
    return total


def _neighbours(n: int, chains: Sequence[Sequence[int]]) -> tuple[Rows, Rows]:
    above: Rows = [[] for _ in range(n)]
    below: Rows = [[] for _ in range(n)]
    for chain in chains:
        for upper, lower in pairwise(chain):
            above[lower].append(upper)
            below[upper].append(lower)
    return above, below


def _sweep(rows: Rows, above: Rows, below: Rows) -> Rows:
    """The best order of the barycentre sweeps, which alternate between down and up."""
    best, fewest, current = rows, crossings(rows, below), rows
    for sweep in range(SWEEPS):
        downwards = sweep % 2 == 0
        current = [list(row) for row in current]
        for r in range(1, len(rows)) if downwards else range(len(rows) - 2, -1, -1):
            fixed = {node: place for place, node in enumerate(current[r - 1 if downwards else r + 1])}
            current[r] = _by_barycentre(current[r], above if downwards else below, fixed)
        crossed = crossings(current, below)
        if crossed < fewest:
            best, fewest = current, crossed
    return best


def _by_barycentre(row: list[int], neighbours: list[list[int]], fixed: dict[int, int]) -> list[int]:
    scale = len(fixed) / max(len(row), 1)
    keys = {
        node: sum(fixed[other] for other in neighbours[node]) / len(neighbours[node])
        if neighbours[node]
        else place * scale
        for place, node in enumerate(row)
    }
    return sorted(row, key=keys.__getitem__)


def _exchange(rows: Rows, above: Rows, below: Rows) -> Rows:
    """The rows with neighbours exchanged as long as that reduces crossings."""
    rows = [list(row) for row in rows]
    place = {node: at for row in rows for at, node in enumerate(row)}
    moved = True
    while moved:
        moved = False
        for row in rows:
            for at in range(len(row) - 1):
                left, right = row[at], row[at + 1]
                if _saved(left, right, above, below, place) > 0:
                    row[at], row[at + 1] = right, left
                    place[left], place[right] = at + 1, at
                    moved = True
    return rows


def _saved(left: int, right: int, above: Rows, below: Rows, place: dict[int, int]) -> int:
    """The reduction of crossings by exchanging the neighbours `left` and `right`."""
    saved = 0
    for ends in (above, below):
        for a in ends[left]:
            for b in ends[right]:
                saved += (place[a] > place[b]) - (place[a] < place[b])
    return saved


FloatArray = NDArray[np.float64]

SLOT_WIDTH = 0.13
"""width of an edge on a layer that it passes"""
GAP_WIDTH = 0.2
"""free width between two neighbours on a layer"""


@dataclass(frozen=True)
class Layout:
    """The positions of all elements: `centres` `[n_nodes, 2]`, `layers` `[n_nodes]`, and a route per arc.

    A route `[n_points, 2]` leads from the upper node of its arc to the lower node: by an S-curve from the first point
    to the second, a straight line down to the third, a curve to the fourth and so on. `down[k]` is whether arc k points
    downwards; it is False for arcs that were reversed to break a cycle.
    """

    centres: FloatArray
    layers: tuple[int, ...]
    routes: tuple[FloatArray, ...]
    down: tuple[bool, ...]
    widths: FloatArray
    height: float

    @property
    def bounds(self) -> tuple[float, float, float, float]:
        """The smallest box around all nodes and routes: left, bottom, right, top."""
        half = np.stack([self.widths / 2, np.full(len(self.widths), self.height / 2)], axis=1)
        points = np.concatenate([self.centres - half, self.centres + half, *self.routes])
        (left, bottom), (right, top) = points.min(axis=0), points.max(axis=0)
        return float(left), float(bottom), float(right), float(top)


def layered(widths: Sequence[float], arcs: Sequence[IndexArc], height: float = 0.3) -> Layout:
    """Lay out nodes of the given widths, connected by `arcs` (source, target).

    In a cycle, the first arcs keep their direction. The last layouts are cached, because a run draws its graph several
    times.
    """
    return _layered(tuple(widths), tuple(arcs), height)


@lru_cache(maxsize=8)
def _layered(widths: tuple[float, ...], arcs: tuple[IndexArc, ...], height: float) -> Layout:
    size = np.array(widths, float)
    turned = reverse_feedback_arcs(len(size), arcs)
    layers = assign_layers(len(size), turned, capacity=max(5, round(1.5 * np.sqrt(len(size)))))
    rows, chains = with_slots(layers, turned)
    rows = order_rows(rows, chains)
    slot_widths = np.concatenate([size, np.full(sum(map(len, rows)) - len(size), SLOT_WIDTH)])
    x = horizontal(rows, chains, slot_widths, len(size))
    y = vertical(rows, chains, x, height, {node for chain in chains for node in chain})
    centres = np.stack([x, y], axis=1)
    routes = _routes(centres, chains, size, height)
    down = tuple(arc == now for arc, now in zip(arcs, turned, strict=True))
    return Layout(centres[: len(size)], tuple(layers), routes, down, size, height)


def horizontal(rows: list[list[int]], chains: list[list[int]], widths: FloatArray, n: int) -> FloatArray:
    """The x of each node and slot: near its neighbours above and below, in order and without overlap.

    Long edges are nearly straight. Each row in turn moves to the nearest positions that keep the distances, by isotonic
    regression.
    """
    pull = _pull(chains, len(widths), n)
    x = np.zeros(len(widths))
    offsets = [_offsets(widths[row], np.asarray(row) >= n) for row in rows]
    pulls = [pull[row] for row in rows]
    weights = [np.asarray(of_row.sum(axis=1), dtype=np.float64).ravel() for of_row in pulls]
    for row, offset in zip(rows, offsets, strict=True):
        x[row] = offset - offset.mean()
    for sweep in range(2 * SWEEPS):
        for row, offset, of_row, weight in list(zip(rows, offsets, pulls, weights, strict=True))[
            :: 1 - 2 * (sweep % 2)
        ]:
            wanted = np.where(weight > 0, of_row @ x / np.maximum(weight, 1e-9), x[row])
            x[row] = isotonic(wanted - offset, weight + 1e-3) + offset
    return x


def isotonic(wanted: FloatArray, weights: FloatArray) -> FloatArray:
    """The nondecreasing sequence nearest to `wanted` in weighted squares, by pooling adjacent violators.

    SciPy has the same function (`scipy.optimize.isotonic_regression`), but the import of `scipy.optimize` takes longer
    than a drawing.
    """
    blocks: list[tuple[float, float, int]] = []
    for value, weight in zip(wanted.tolist(), weights.tolist(), strict=True):
        mean, total, length = value, weight, 1
        while blocks and blocks[-1][0] >= mean:
            before, mass, count = blocks.pop()
            mean = (mass * before + total * mean) / (mass + total)
            total, length = mass + total, count + length
        blocks.append((mean, total, length))
    return np.repeat([mean for mean, _, _ in blocks], [length for _, _, length in blocks])


def _pull(chains: list[list[int]], total: int, n: int) -> "csr_array":
    """The attraction between any two of `total` nodes and slots, sparse; the first `n` are nodes."""
    from scipy.sparse import csr_array

    joined = np.array([piece for chain in chains for piece in pairwise(chain)], int).reshape(-1, 2)
    strength = np.array([1.0, 2.0, 8.0])[(joined >= n).sum(axis=1)]
    there, back = joined.T
    both = np.concatenate([there, back]), np.concatenate([back, there])
    return csr_array((np.tile(strength, 2), both), shape=(total, total))


def _offsets(widths: FloatArray, slot: NDArray[np.bool_]) -> FloatArray:
    between = np.where(slot[:-1] & slot[1:], 0.0, np.where(slot[:-1] | slot[1:], GAP_WIDTH / 2, GAP_WIDTH))
    return np.concatenate([[0.0], np.cumsum((widths[:-1] + widths[1:]) / 2 + between)])


def vertical(
    rows: list[list[int]], chains: list[list[int]], x: FloatArray, height: float, joined: set[int]
) -> FloatArray:
    """The y of each node and slot: rows from the top down, further apart if edges between them extend far sideways."""
    row_of = {node: r for r, row in enumerate(rows) for node in row}
    reach = np.zeros(len(rows) + 1)
    for chain in chains:
        for upper, lower in pairwise(chain):
            reach[row_of[upper]] = max(reach[row_of[upper]], abs(x[upper] - x[lower]))
    y, depth = np.zeros(len(x)), 0.0
    for r, row in enumerate(rows):
        y[row] = -depth
        depth += height + (float(np.clip(0.32 + 0.16 * reach[r], 0.45, 1.3)) if joined & set(row) else 0.15)
    return y


def _routes(centres: FloatArray, chains: list[list[int]], widths: FloatArray, height: float) -> tuple[FloatArray, ...]:
    starts = _ports([(chain[0], centres[chain[1], 0]) for chain in chains], centres, widths)
    ends = _ports([(chain[-1], centres[chain[-2], 0]) for chain in chains], centres, widths)
    routes = []
    for chain, start, end in zip(chains, starts, ends, strict=True):
        points = [(start, centres[chain[0], 1] - height / 2)]
        for slot in chain[1:-1]:
            x, y = centres[slot]
            points += [(x, y + height / 2), (x, y - height / 2)]
        routes.append(np.array([*points, (end, centres[chain[-1], 1] + height / 2)]))
    return tuple(routes)


def _ports(ends: list[tuple[int, float]], centres: FloatArray, widths: FloatArray) -> list[float]:
    """The x at which each edge touches its node; edges are side by side, in the order of their other ends."""
    at_node: dict[int, list[int]] = {}
    for number, (node, _) in enumerate(ends):
        at_node.setdefault(node, []).append(number)
    ports = [0.0] * len(ends)
    for node, numbers in at_node.items():
        numbers.sort(key=lambda number: ends[number][1])
        step = min(0.15, 0.8 * widths[node] / len(numbers))
        for place, number in enumerate(numbers):
            ports[number] = float(centres[node, 0]) + step * (place - (len(numbers) - 1) / 2)
    return ports
