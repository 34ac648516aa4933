"""The state of a silo in every resample, as it is when it is opened: kept where it is small, else made anew."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

import numpy as np

ROOM = 64_000_000
"""bytes that the opened states of all resamples may take at one silo: a learner that keeps its rows has them N times"""


@dataclass(frozen=True)
class Opened:
    """How to open the silo of a resample from its seed, and those of the first resamples, already opened."""

    open_one: Callable[[int], Any]
    seeds: tuple[int, ...]
    states: tuple[Any, ...] = ()


def begun(open_one: Callable[[int], Any], seeds: Sequence[int], *, again: bool) -> Opened:
    """Return the resamples of these `seeds`; if they are needed `again` and again, as many opened as there is room."""
    states: list[Any] = []
    room = ROOM if again else 0
    for seed in seeds:
        if room <= 0:
            break
        states.append(open_one(seed))
        room -= size_of(states[-1])
    return Opened(open_one, tuple(seeds), tuple(states))


def state_of(opened: Opened, which: int) -> Any:
    """Return the state of resample `which` as it was opened."""
    if which < len(opened.states):
        return opened.states[which]
    return opened.open_one(opened.seeds[which])


def size_of(state: Any) -> int:
    """Return how many bytes the arrays in `state` take."""
    if isinstance(state, np.ndarray):
        return state.nbytes
    if is_dataclass(state):
        return sum(size_of(getattr(state, field.name)) for field in fields(state))
    values = state.values() if isinstance(state, dict) else state if isinstance(state, tuple) else ()
    return sum(map(size_of, values))
