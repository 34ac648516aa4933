"""Links between devices: events also excite events on devices that are a few hops away (after Cai et al. 2022, THP).

An event of type j on a device causes α_ij events of type i on this device on average, and α_ij·w^k on all devices that
are k hops away together, in equal parts, for each k up to the setting `hops`. THP has parameters for each k, and a
normalised adjacency matrix instead of equal parts. Here all edges share one weight w, so that families have the same
columns as without links. With φ_j as in `hawkes.py`, events on device n have the excitation

    Σ_m s_mn φ_j(m, t),   s_nn = 1,   s_mn = w^k / (number of devices k hops from m).

Devices of different silos have no links, so the log-likelihood is still a sum over silos. Links are undirected. Paths
may lead through devices without events.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..compiled import njit
from ..core.schema import FloatArray
from .hawkes import DEVICE, END, EVENT, START, TIME, Design, observation_time

LINKS = END + 1
"""the first column with the number of a device's neighbour in a table of events; −1: none"""
MAX_HOPS = 10


@dataclass(frozen=True, eq=False)
class Reach:
    """The pairs of devices of which one, the sender, excites the other, with the share s, sorted by receiver."""

    receiver: NDArray[np.int64]
    sender: NDArray[np.int64]
    share: FloatArray


def neighbours_of(table: FloatArray) -> list[set[int]]:
    """The neighbours of each device of `table` `[n, 5 + links]`; links are undirected."""
    rows = np.unique(table[:, [DEVICE, *range(LINKS, table.shape[1])]].astype(np.int64), axis=0)
    found: list[set[int]] = [set() for _ in range(int(rows.max(initial=-1)) + 1)]
    for device, *links in rows.tolist():
        for other in links:
            if other not in (-1, device):
                found[device].add(other)
                found[other].add(device)
    return found


def reach_of(table: FloatArray, hops: int, weight: float) -> Reach:
    """Which devices with events in `table` excite each other over up to this number of `hops`."""
    neighbours, observed = neighbours_of(table), set(table[:, DEVICE].astype(np.int64).tolist())
    pairs = [(device, device, 1.0) for device in observed]
    for sender in observed:
        seen, ring = {sender}, {sender}
        for k in range(1, hops + 1):
            ring = {other for one in ring for other in neighbours[one]} - seen
            seen |= ring
            pairs += [(receiver, sender, weight**k / len(ring)) for receiver in ring & observed]
    receiver, sender, share = zip(*sorted(pairs), strict=True)
    return Reach(np.array(receiver, np.int64), np.array(sender, np.int64), np.array(share))


def linked_design(table: FloatArray, types: int, decay: float, unit: float, reach: Reach) -> Design:
    """The design of `hawkes.design` with the excitation by the devices in `reach`."""
    devices, codes = table[:, DEVICE].astype(np.int64), table[:, EVENT].astype(np.int64)
    edges = np.searchsorted(devices, np.arange(devices[-1] + 2))
    begins = np.searchsorted(reach.receiver, np.arange(devices[-1] + 2))
    order = np.argsort(table[:, TIME], kind="stable")
    excitation = _hop_excitation(order, devices, table[:, TIME], codes, types, decay, begins, reach.sender, reach.share)
    at = edges[:-1].clip(max=len(table) - 1)
    areas = _areas(
        edges,
        table[:, TIME],
        codes,
        types,
        decay,
        reach.receiver,
        reach.sender,
        reach.share,
        table[at, START],
        table[at, END],
    )
    columns = np.hstack([np.ones((len(table), 1)), unit * excitation])
    return Design(columns, np.concatenate([[observation_time(table) / unit], areas]))


@njit(cache=True)
def _hop_excitation(
    order: NDArray[np.int64],
    devices: NDArray[np.int64],
    times: FloatArray,
    codes: NDArray[np.int64],
    types: int,
    decay: float,
    begins: NDArray[np.int64],
    sender: NDArray[np.int64],
    share: FloatArray,
) -> FloatArray:
    """The excitation just before each event by all devices that reach its device, `[n, d]`, for events in `order`."""
    n = len(times)
    found, level = np.zeros((n, types)), np.zeros((len(begins), types))
    updated, begin = np.full(len(begins), times[order[0]]), 0
    while begin < n:
        now, end = times[order[begin]], begin
        while end < n and times[order[end]] == now:
            event = order[end]
            for pair in range(begins[devices[event]], begins[devices[event] + 1]):
                other = sender[pair]
                found[event] += share[pair] * np.exp(-decay * (now - updated[other])) * level[other]
            end += 1
        for place in range(begin, end):
            device = devices[order[place]]
            level[device] *= np.exp(-decay * (now - updated[device]))
            updated[device] = now
            level[device, codes[order[place]]] += decay
        begin = end
    return found


@njit(cache=True)
def _areas(
    edges: NDArray[np.int64],
    times: FloatArray,
    codes: NDArray[np.int64],
    types: int,
    decay: float,
    receiver: NDArray[np.int64],
    sender: NDArray[np.int64],
    share: FloatArray,
    starts: FloatArray,
    ends: FloatArray,
) -> FloatArray:
    """For each type, the excitation by its events, integrated over the windows of the devices they reach, `[d]`."""
    found = np.zeros(types)
    for pair in range(len(receiver)):
        start, end = starts[receiver[pair]], ends[receiver[pair]]
        for event in range(edges[sender[pair]], edges[sender[pair] + 1]):
            before = max(start - times[event], 0.0)
            after = max(end - times[event], 0.0)
            found[codes[event]] += share[pair] * (np.exp(-decay * before) - np.exp(-decay * after))
    return found
