"""A layered drawing of a directed graph (Sugiyama, Tagawa & Toda 1981): causes above their effects.

The four classic steps: reverse arcs until there is no cycle, put nodes on layers by longest path, order each layer to
save crossings, then choose coordinates. An edge that spans several layers is led through a slot of its own on each of
them, so that it never runs through a node. Lengths are inches; y grows upwards.

igraph in its place draws 2 to 7 times as wide, as it gives a slot as much room as a node, with 3 to 4.5 times the
crossings (`benchmarks/layout.py`), and is under the GPL.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from .layering import Arc, assign_layers, reverse_feedback_arcs, with_slots
from .ordering import SWEEPS, order_rows

if TYPE_CHECKING:
    from scipy.sparse import csr_array

FloatArray = NDArray[np.float64]

SLOT = 0.13
"""width an edge takes on a layer that it passes"""
GAP = 0.2
"""free width between two neighbours on a layer"""


@dataclass(frozen=True)
class Layout:
    """Where everything goes: `centres` `[n_nodes, 2]`, `layers` `[n_nodes]`, and a route per arc.

    A route is `[n_points, 2]` from the upper node of its arc to the lower one: an S-curve from the first point to the
    second, a straight line down to the third, a curve to the fourth and so on. `down[k]` tells whether arc k runs
    downwards, that is from its source to its target; it is False for arcs that had to be turned to break a cycle.
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


def layered(widths: Sequence[float], arcs: Sequence[Arc], height: float = 0.3) -> Layout:
    """Lay out nodes of the given widths, joined by `arcs` (source, target).

    Where arcs make a cycle, those that come first in `arcs` keep their direction.
    """
    size = np.asarray(widths, float)
    turned = reverse_feedback_arcs(len(size), arcs)
    layers = assign_layers(len(size), turned, capacity=max(5, round(1.5 * np.sqrt(len(size)))))
    rows, chains = with_slots(layers, turned)
    rows = order_rows(rows, chains)
    slot_widths = np.concatenate([size, np.full(sum(map(len, rows)) - len(size), SLOT)])
    x = horizontal(rows, chains, slot_widths, len(size))
    y = vertical(rows, chains, x, height, {node for chain in chains for node in chain})
    centres = np.stack([x, y], axis=1)
    routes = _routes(centres, chains, size, height)
    down = tuple(arc == now for arc, now in zip(arcs, turned, strict=True))
    return Layout(centres[: len(size)], tuple(layers), routes, down, size, height)


def horizontal(rows: list[list[int]], chains: list[list[int]], widths: FloatArray, n: int) -> FloatArray:
    """Return each x: near the neighbours above and below, long edges straight, in order and without overlap.

    Each row in turn is moved to the nearest places that keep the distances: an isotonic regression.
    """
    from scipy.optimize import isotonic_regression

    pull = _pull(chains, len(widths), n)
    x = np.zeros(len(widths))
    offsets = [_offsets(widths[row], np.asarray(row) >= n) for row in rows]
    pulls = [pull[row] for row in rows]
    weights = [np.asarray(of_row.sum(axis=1)).ravel() for of_row in pulls]
    for row, offset in zip(rows, offsets, strict=True):
        x[row] = offset - offset.mean()
    for sweep in range(2 * SWEEPS):
        for row, offset, of_row, weight in list(zip(rows, offsets, pulls, weights, strict=True))[
            :: 1 - 2 * (sweep % 2)
        ]:
            wanted = np.where(weight > 0, of_row @ x / np.maximum(weight, 1e-9), x[row])
            x[row] = isotonic_regression(wanted - offset, weights=weight + 1e-3).x + offset
    return x


def _pull(chains: list[list[int]], total: int, n: int) -> "csr_array":
    """Return how strongly every two of `total` nodes and slots draw each other, sparse; the first `n` are nodes."""
    from scipy.sparse import csr_array

    joined = np.array([piece for chain in chains for piece in pairwise(chain)], int).reshape(-1, 2)
    strength = np.array([1.0, 2.0, 8.0])[(joined >= n).sum(axis=1)]
    there, back = joined.T
    both = np.concatenate([there, back]), np.concatenate([back, there])
    return csr_array((np.tile(strength, 2), both), shape=(total, total))


def _offsets(widths: FloatArray, slot: NDArray[np.bool_]) -> FloatArray:
    between = np.where(slot[:-1] & slot[1:], 0.0, np.where(slot[:-1] | slot[1:], GAP / 2, GAP))
    return np.concatenate([[0.0], np.cumsum((widths[:-1] + widths[1:]) / 2 + between)])


def vertical(
    rows: list[list[int]], chains: list[list[int]], x: FloatArray, height: float, joined: set[int]
) -> FloatArray:
    """Return each y: rows from the top down, further apart where edges have far to go sideways."""
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
    """Return the x at which each edge touches its node: side by side, in the order of where the edges come from."""
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
