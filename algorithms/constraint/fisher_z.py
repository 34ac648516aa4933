"""Fisher's z test of partial correlation from pooled moments: constraint-based learning of continuous data.

One exchange is all it takes: the silos send the sums, and the sums of products, of their columns. A correlation is
about the pooled mean, which these sums give; nothing is centred at a silo.
"""

import numpy as np
from numpy.typing import NDArray
from scipy.special import erfc

from ..protocol import FloatArray
from .results import Results
from .subsets import PAD, Tests

# A variance that is less than this part of the mean square is what rounding left of 0.
ROUNDING = 1e-12


def moments(table: FloatArray) -> FloatArray:
    """Return the number of rows of `table` `[n_rows, d]`, the d sums and the d(d + 1)/2 sums of products."""
    products = table.T @ table
    return np.concatenate([[len(table)], table.sum(axis=0), products[np.triu_indices(len(products))]])


def correlation(pooled: FloatArray, d: int) -> tuple[int, FloatArray]:
    """Return the number of rows and the correlation matrix `[d, d]` that summed `moments` give.

    A column without variance correlates with nothing.
    """
    n, sums = pooled[0], pooled[1 : d + 1]
    products = np.zeros((d, d))
    products[np.triu_indices(d)] = pooled[d + 1 :]
    covariance = np.triu(products) + np.triu(products, 1).T - np.outer(sums, sums) / n
    variances = np.diag(covariance)
    scale = np.sqrt(np.where(variances > ROUNDING * np.diag(products), variances, 0))
    correlations = np.divide(covariance, np.outer(scale, scale), out=np.eye(d), where=np.outer(scale, scale) > 0)
    np.fill_diagonal(correlations, 1.0)
    return int(n), correlations


def fisher_z(n: int, correlations: FloatArray, tests: Tests) -> Results:
    """Return the p-values of `tests` from the correlations in n rows; the strength is |r|.

    √(n − |z| − 3) atanh r is close to standard normal if the partial correlation r is 0 (Fisher 1924).
    """
    r = np.zeros(len(tests))
    sizes = (tests != PAD).sum(axis=1)
    for size in np.unique(sizes):
        chosen = np.flatnonzero(sizes == size)
        r[chosen] = _partial(correlations, tests[chosen, :size])
    spread = np.sqrt(np.maximum(n - (sizes - 2) - 3, 0))
    z = spread * np.arctanh(np.clip(np.abs(r), 0, 1 - 1e-15))
    return Results(p=erfc(z / np.sqrt(2)), strength=np.abs(r))


def _partial(correlations: FloatArray, tests: NDArray[np.int16]) -> FloatArray:
    """Return the correlation of the first two of each row given the rest, `[n_tests]`."""
    if tests.shape[1] == 2:
        return np.asarray(correlations[tests[:, 0], tests[:, 1]])
    among = correlations[tests[:, :, None], tests[:, None, :]]
    try:
        precision = np.linalg.inv(among)
    except np.linalg.LinAlgError:
        precision = np.linalg.pinv(among, hermitian=True)
    scale = np.sqrt(np.abs(precision[:, 0, 0] * precision[:, 1, 1]))
    return np.asarray(np.divide(-precision[:, 0, 1], scale, out=np.zeros(len(tests)), where=scale > 0))
