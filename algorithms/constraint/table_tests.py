"""χ² and G² tests of conditional independence from count tables (Wang, Ma & Wang 2023, §4.2)."""

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtrc

from ..compiled import njit
from ..core.schema import FloatArray
from ..statistics.count_tables import Tables, offsets
from .search import Results
from .subsets import Tests


def chi_square(
    counts: FloatArray,
    tables: Tables,
    cardinalities: NDArray[np.int64],
    tests: Tests,
    *,
    g_square: bool = False,
    share: float = 1.0,
) -> Results:
    """The p-values and strengths of `tests` from `counts`, the concatenated tables of `tables`.

    χ² = Σ_z Σ_xy (v_xyz − e)²/e with e = v_xz v_yz / v_z (Wang, Ma & Wang 2023, Eq. 2), or G² = 2 Σ v_xyz ln(v_xyz /
    e). A stratum has (|X_z| − 1)(|Y_z| − 1) degrees of freedom, counting the levels that occur in it; an empty stratum
    has none. Without any degree of freedom there is no evidence of dependence, and p = 1. The strength is Tschuprow's
    T², for G² computed with G² in place of χ². If only a `share` of the rows counts as independent, p is that of
    `share` times the statistic (Rao & Scott 1984).
    """
    begins = offsets(tables.sets, cardinalities)
    largest = int(cardinalities.max())
    statistic, dof, n = _statistics(
        counts, begins, cardinalities, tables.sets, tables.table_of, tests, largest, g_square
    )
    return Results(
        p=np.where(dof > 0, chdtrc(np.maximum(dof, 1), share * statistic), 1.0),
        strength=statistic / np.sqrt(np.maximum(dof, 1)) / np.maximum(n, 1),
    )


@njit(cache=True)
def _statistics(counts, begins, cardinalities, sets, table_of, tests, largest, g_square):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    statistic, dof, total = np.zeros(len(tests)), np.zeros(len(tests), np.int64), np.zeros(len(tests))
    margin_x, margin_y = np.empty(largest), np.empty(largest)
    width = sets.shape[1]
    digits, radices, strides = np.empty(width, np.int64), np.empty(width, np.int64), np.empty(width, np.int64)
    for test in range(len(tests)):
        x, y, s = tests[test, 0], tests[test, 1], table_of[test]
        step, step_x, step_y, n_given, strata = 1, 0, 0, 0, 1
        for t in range(width - 1, -1, -1):
            v = sets[s, t]
            if v < 0:
                continue
            if v == x:
                step_x = step
            elif v == y:
                step_y = step
            else:
                digits[n_given], radices[n_given], strides[n_given] = 0, cardinalities[v], step
                n_given += 1
                strata *= cardinalities[v]
            step *= cardinalities[v]
        position = begins[s]
        for _ in range(strata):
            value, freedom, n = _stratum(
                counts, position, cardinalities[x], step_x, cardinalities[y], step_y, margin_x, margin_y, g_square
            )
            statistic[test] += value
            dof[test] += freedom
            total[test] += n
            for t in range(n_given):
                digits[t] += 1
                position += strides[t]
                if digits[t] < radices[t]:
                    break
                position -= radices[t] * strides[t]
                digits[t] = 0
    return statistic, dof, total


@njit(cache=True)
def _stratum(counts, position, n_x, step_x, n_y, step_y, margin_x, margin_y, g_square):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Statistic, degrees of freedom and number of rows of one two-way table within `counts`."""
    for a in range(n_x):
        margin_x[a] = 0.0
    for b in range(n_y):
        margin_y[b] = 0.0
    for a in range(n_x):
        for b in range(n_y):
            v = counts[position + a * step_x + b * step_y]
            margin_x[a] += v
            margin_y[b] += v
    n, levels_x, levels_y = 0.0, 0, 0
    for a in range(n_x):
        n += margin_x[a]
        levels_x += margin_x[a] > 0
    for b in range(n_y):
        levels_y += margin_y[b] > 0
    if levels_x < 2 or levels_y < 2:
        return 0.0, 0, n
    value = 0.0
    for a in range(n_x):
        if margin_x[a] > 0:
            for b in range(n_y):
                if margin_y[b] > 0:
                    v = counts[position + a * step_x + b * step_y]
                    expected = margin_x[a] * (margin_y[b] / n)
                    if not g_square:
                        value += (v - expected) ** 2 / expected
                    elif v > 0:
                        value += 2 * v * np.log(v / expected)
    return value, (levels_x - 1) * (levels_y - 1), n
