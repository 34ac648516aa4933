"""The first half of a layered drawing: reverse arcs on cycles, put nodes on layers, give long edges a slot on each.

See `layout.py` for the whole.
"""

from collections.abc import Sequence

import numpy as np

Arc = tuple[int, int]


def reverse_feedback_arcs(n: int, arcs: Sequence[Arc]) -> list[Arc]:
    """Return all `arcs`, those reversed that would close a cycle with the arcs before them.

    For drawing only: `graphs.dag.break_cycles` drops the weakest edges of a learned graph instead.
    """
    reaches = np.eye(n, dtype=bool)
    turned: list[Arc] = []
    for source, target in arcs:
        upper, lower = (target, source) if reaches[target, source] else (source, target)
        reaches[reaches[:, upper]] |= reaches[lower]
        turned.append((upper, lower))
    return turned


def topological(n: int, arcs: Sequence[Arc]) -> list[int]:
    """Return the nodes, sources before targets; `arcs` must not make a cycle.

    Ties go by the order of `arcs`, not by index as in `graphs.dag.topological_order`: the first arcs matter most.
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


def assign_layers(n: int, arcs: Sequence[Arc], capacity: int) -> list[int]:
    """Return the layer of each node, 0 on top: below all its parents, at most `capacity` nodes on a layer.

    Nodes are then pulled towards their children, which makes arcs shorter. Nodes without any arc come last.
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
    """Return the layers renumbered from 0, with the nodes that are not joined to any put below, `width` on a layer."""
    used = sorted({layer[node] for node in joined})
    renumbered = {node: used.index(layer[node]) for node in joined}
    alone = [node for node in range(len(layer)) if node not in renumbered]
    renumbered |= {node: len(used) + place // width for place, node in enumerate(alone)}
    return [renumbered[node] for node in range(len(layer))]


def with_slots(layers: Sequence[int], arcs: Sequence[Arc]) -> tuple[list[list[int]], list[list[int]]]:
    """Return the rows of nodes and slots, and per arc its chain: upper node, a slot on each layer between, lower node.

    Slots are numbered after the nodes.
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
