"""How often each joint state of a few variables occurs, without ever laying out all the states that do not.

The state of variables V = (v_1, ..., v_m) is a mixed-radix number, its last digit that of v_m. Small tables are counted
cell by cell; of wide ones only the states that occur are kept, in ascending order: both list the same counts in the
same order, so a score comes out the same, bit for bit, however its family was counted.
"""

import numpy as np
from numba import njit
from numpy.typing import NDArray

DENSE = 1 << 15
"""cells up to which a table is counted cell by cell"""
_WIDE = 1 << 40

Ints = NDArray[np.int64]


@njit(cache=True)
def count_cells(columns, arities, parents, child, cells, codes):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    """Count the joint states of `parents` and then `child` into `cells`, one for each; `codes` `[n_rows]`: scratch."""
    cells[:] = 0
    codes[:] = 0
    for p in parents:
        radix, column = np.int32(arities[p]), columns[p]
        for row in range(len(codes)):
            codes[row] = codes[row] * radix + column[row]
    radix, column = np.int32(arities[child]), columns[child]
    for row in range(len(codes)):
        cells[codes[row] * radix + column[row]] += 1


def count_occurring(
    columns: NDArray[np.int16], arities: Ints, parents: NDArray[np.uint16], child: int
) -> tuple[Ints, Ints]:
    """Return the number (a rank) of the parents' state and the count of each joint state that occurs, ascending.

    Codes that might overflow are replaced by their ranks, which keeps the order.
    """
    codes = np.zeros(columns.shape[1], np.int64)
    states = 1
    for p in parents:
        if states > _WIDE // arities[p]:
            codes = np.unique(codes, return_inverse=True)[1]
            states = len(codes)
        codes = codes * arities[p] + columns[p]
        states *= int(arities[p])
    ranks = np.unique(codes, return_inverse=True)[1]
    occurring, counts = np.unique(ranks * arities[child] + columns[child], return_counts=True)
    return occurring // arities[child], counts
