"""Tables that are drawn again in each pass, and the memory needed to read them."""

import tracemalloc
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

CHUNK_ROWS, COLUMNS = 1000, 10


@dataclass(frozen=True)
class DrawnTable:
    """A table `[rows, COLUMNS]` that is never in memory: each pass draws the same rows."""

    rows: int
    draw: Callable[[np.random.Generator, tuple[int, int]], np.ndarray]

    @property
    def shape(self) -> tuple[int, int]:
        return self.rows, COLUMNS

    def __iter__(self) -> Iterator[np.ndarray]:
        for begin in range(0, self.rows, CHUNK_ROWS):
            yield self.draw(np.random.default_rng(begin), (CHUNK_ROWS, COLUMNS))


def peak_of(work: Callable[[], object]) -> int:
    """The peak memory of Python objects during `work`, in bytes."""
    tracemalloc.start()
    work()
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return most
