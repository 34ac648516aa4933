"""How often each joint state of a few variables occurs, without ever laying out all the states that do not.

The state of variables V = (v_1, ..., v_m) is a mixed-radix number, its last digit that of v_m. Small tables are counted
cell by cell; of wide ones only the states that occur are kept, in ascending order: both list the same counts in the
same order, so a score comes out the same, bit for bit, however its family was counted.
"""

import numpy as np
from numba import njit

DENSE = 1 << 15
"""cells up to which a table is counted cell by cell"""
_WIDE = 1 << 40


@njit(cache=True)
def count_cells(columns, arities, variables, cells, codes):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    """Count the joint states of `variables` into `cells`, one for each of them; `codes` `[n_rows]` is scratch."""
    cells[:] = 0
    _encode(columns, arities, variables, codes)
    for row in range(len(codes)):
        cells[codes[row]] += 1


@njit(cache=True)
def _encode(columns, arities, variables, codes):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    if len(variables) == 0:
        codes[:] = 0
        return
    codes[:] = columns[variables[0]]
    for i in range(1, len(variables)):
        column, radix = columns[variables[i]], np.int32(arities[variables[i]])
        for row in range(len(codes)):
            codes[row] = codes[row] * radix + column[row]


@njit(cache=True)
def count_occurring(columns, arities, variables):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    """Return the parents' state (a rank), the child's level and the count of each joint state that occurs.

    The child is the last of `variables`; the states come in ascending order. Codes that would overflow are replaced by
    their ranks, which keeps the order.
    """
    codes = np.zeros(columns.shape[1], np.int64)
    states = 1
    for i in range(len(variables) - 1):
        if states > _WIDE // arities[variables[i]]:
            states = _rank(codes)
        codes = codes * arities[variables[i]] + columns[variables[i]]
        states *= arities[variables[i]]
    _rank(codes)
    child = variables[-1]
    codes = np.sort(codes * arities[child] + columns[child])
    new = np.ones(len(codes), np.bool_)
    new[1:] = codes[1:] != codes[:-1]
    starts = np.append(np.flatnonzero(new), len(codes))
    occurring = codes[starts[:-1]]
    return occurring // arities[child], occurring % arities[child], np.diff(starts)


@njit(cache=True)
def _rank(codes):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    order = np.argsort(codes)
    rank, last = -1, np.int64(-1)
    for row in order:
        if codes[row] != last:
            rank += 1
            last = codes[row]
        codes[row] = rank
    return rank + 1
