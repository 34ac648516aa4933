"""Numba made ready: importing this module loads what Numba loads for the first compiled function of a process.

The process that workers are forked from imports it, so that no worker spends 0.3 s on that in its first round.
"""

from numba import njit


@njit(cache=True)
def _twice(x: float) -> float:
    return 2 * x


_twice(1.0)
