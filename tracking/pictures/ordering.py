"""The third step of a layered drawing: order the nodes and slots of each row so that few edges cross.

Barycentre sweeps (Sugiyama, Tagawa & Toda 1981), each followed by exchanges of neighbours while that helps, from
several starts. See `layout.py` for the whole.
"""

from bisect import bisect_right, insort
from collections.abc import Sequence
from itertools import pairwise

import numpy as np

Rows = list[list[int]]

SWEEPS = 16
STARTS = 8
MANY = 1500
"""nodes and slots from which on one start must do"""


def order_rows(rows: Rows, chains: Sequence[Sequence[int]]) -> Rows:
    """Return the rows reordered: the order with the fewest crossings that was seen.

    A chain is an edge cut into pieces, one node or slot on each row that it touches. The same input gives the same
    order.
    """
    above, below = _neighbours(sum(map(len, rows)), chains)
    best, fewest = rows, crossings(rows, below)
    for start in range(STARTS if sum(map(len, rows)) < MANY else 1):
        shuffle = np.random.default_rng(start)
        current = [[int(node) for node in shuffle.permutation(row)] for row in rows] if start else rows
        for _ in range(2):
            current = _exchange(_sweep(current, above, below), above, below)
        crossed = crossings(current, below)
        if crossed < fewest:
            best, fewest = current, crossed
    return best


def crossings(rows: Rows, below: Sequence[Sequence[int]]) -> int:
    """Return how many pairs of edge pieces cross between neighbouring rows; `below[node]` is what hangs on it."""
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
    """Return the best of the orders that barycentre sweeps, down and up in turn, go through."""
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
    """Return the rows with neighbours exchanged as long as that saves crossings."""
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
    """Return how many crossings it saves to exchange the neighbours `left` and `right`."""
    saved = 0
    for ends in (above, below):
        for a in ends[left]:
            for b in ends[right]:
                saved += (place[a] > place[b]) - (place[a] < place[b])
    return saved
