"""The contribution of each edge to the fit of its graph, from sums that the run has already made.

The graph is compared with the same graph without the edge x → y, given the other parents of y:

- `log_likelihood`: the increase of the maximum log-likelihood, in nats. For numbers it is n/2 · ln(v′/v), where v and
  v′ are the residual variances of y with and without x. For labels it is the difference of Σ n ln(n / Σ n) over the
  table.
- `bic`: the gain in BIC (Schwarz 1978), which is the increase of the log-likelihood minus ½ ln n for each parameter of
  the edge.
- `p_value`: for numbers, F test of the regression coefficients; for labels, χ² test within the states of the other
  parents.
- `score`: for labels, the gain in BDeu (Heckerman, Geiger, Chickering 1995), if the learner uses BDeu.
- `largest_p_value`: the largest p-value among all tests of the pair in a constraint-based search (Spirtes, Glymour,
  Scheines 2000). Unless background knowledge requires the edge, it is in the graph because this p-value is at most α.

The search selected the edges by such figures on the same rows. So the p-values are too small, except for edges that
were chosen before the run. An undirected edge has the figures of its direction in one DAG of the class.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedbnsl.algorithms.graphs.edges import EdgeFigures, EdgeKey

from ..core.schema import FloatArray
from ..statistics.moments import unit_diagonal
from .implied_moments import MIN_DEGREES, MIN_SHARE
from .implied_tables import GRID_VARIANCE, CountsBySet, Server, conditional_log_likelihood, stratified_tests


def figures_of_moments(
    S: FloatArray,
    rows: int,
    silos: int,
    dag: NDArray[np.bool_],
    owners: NDArray[np.int64],
    numeric: NDArray[np.bool_],
) -> dict[tuple[int, int], EdgeFigures]:
    """The figures of the edges of `dag` into numbers, by source and target.

    Parameters
    ----------
    S
        Covariance `[m, m]` of the columns about the silos' own means, divided by `rows`.
    rows, silos
        Numbers of all rows and of silos: the residual degrees of freedom are rows − silos − coefficients.
    dag
        The graph `[d, d]`.
    owners
        The variable of each column, `[m]`: numbers have one column, labels one indicator for each level but the first.
    numeric
        Whether each variable is a number, `[d]`; edges into labels have no figures, because a straight line does not
        model labels.
    """
    flat = np.diag(S) <= 0
    R = unit_diagonal(np.where(np.eye(len(S), dtype=bool) & flat, 1.0, S))
    found = {}
    for j in np.flatnonzero(numeric & dag.any(axis=0)).tolist():
        sources = np.flatnonzero(dag[:, j])
        columns = np.flatnonzero(np.isin(owners, sources))
        child = int(np.flatnonzero(owners == j)[0])
        inverse = np.linalg.pinv(R[np.ix_(columns, columns)], rcond=1e-12, hermitian=True)
        slopes = inverse @ R[columns, child]
        left = 1.0 - float(R[columns, child] @ slopes)
        free = rows - silos - len(columns)
        if left <= MIN_SHARE or free < MIN_DEGREES:
            continue
        for i in sources.tolist():
            own = owners[columns] == i
            within = np.linalg.pinv(inverse[np.ix_(own, own)], rcond=1e-12, hermitian=True)
            explained = max(float(slopes[own] @ within @ slopes[own]), 0.0)
            found[i, j] = _of_regression(explained / left, int(own.sum()), rows, free)
    return found


def _of_regression(ratio: float, width: int, rows: int, free: int) -> EdgeFigures:
    """The figures of a block of `width` coefficients that explains `ratio` times the residual variance."""
    from scipy.special import fdtrc  # imported late, because listing the commands must not import SciPy

    gain = 0.5 * rows * math.log1p(ratio)
    p = float(fdtrc(width, free, ratio / width * free))
    return EdgeFigures(gain, gain - 0.5 * math.log(rows) * width, p)


@dataclass(frozen=True)
class Bdeu:
    """The BDeu score with this equivalent sample size; its structure prior subtracts `parent_price` per parent."""

    ess: float
    parent_price: float

    def of(self, counts: FloatArray) -> float:
        """The score of a child without the prior, from its counts `[states of the parents, levels]`."""
        from scipy.special import gammaln  # late, because listing the commands must not import SciPy

        each, total = self.ess / counts.size, self.ess / len(counts)
        cells = gammaln(each + counts) - gammaln(each)
        return float(cells.sum() - (gammaln(total + counts.sum(axis=1)) - gammaln(total)).sum())


def figures_of_tables(server: Server, bdeu: Bdeu | None, *, blank: bool) -> dict[tuple[int, int], EdgeFigures]:
    """The figures of the edges of the server's DAG; if `blank`, from counts after disclosure control.

    Both graphs are scored on the same table, the table of the child with all its parents, because separate tables are
    rounded separately. `bdeu` is the score of the learner, if it uses BDeu. There are no figures if the tables of the
    variables with their parents were too large to count.
    """
    if not server.has_families:
        return {}
    tables, found = CountsBySet(server, blank=blank), {}
    for i, j in np.argwhere(server.dag).tolist():
        others = [v for v in np.flatnonzero(server.dag[:, j]).tolist() if v != i]
        strata = tables.strata((i, j, *others))
        without, joint = strata.sum(axis=1), strata.reshape(-1, strata.shape[-1])
        gain = max(conditional_log_likelihood(joint) - conditional_log_likelihood(without), 0.0)
        parameters = len(strata) * (strata.shape[1] - 1) * (strata.shape[2] - 1)
        test = stratified_tests(strata[None], GRID_VARIANCE * blank)
        found[i, j] = EdgeFigures(
            gain,
            gain - 0.5 * math.log(max(strata.sum(), 2)) * parameters,
            float(test.p[0]) if test.degrees[0] else None,
            bdeu.of(joint) - bdeu.of(without) - bdeu.parent_price if bdeu else None,
        )
    return found


def by_key(
    found: Mapping[tuple[int, int], EdgeFigures], keys: Mapping[tuple[int, int], EdgeKey]
) -> dict[EdgeKey, EdgeFigures]:
    """The figures `found`, under the `keys` of their arcs."""
    return {keys[arc]: one for arc, one in found.items() if arc in keys}


def keys_of(dag: NDArray[np.bool_], names: Sequence[str], lags: int) -> dict[tuple[int, int], EdgeKey]:
    """The keys of the arcs of `dag`; with `lags`, its rows are the variables now, then one step before, and so on."""
    d = len(names)
    found: dict[tuple[int, int], EdgeKey] = {}
    for i, j in np.argwhere(dag).tolist():
        lag, source = divmod(i, d) if lags else (0, i)
        first, second = (names[source], names[j]) if lag else sorted((names[source], names[j]))
        found[i, j] = (first, second, lag)
    return found
