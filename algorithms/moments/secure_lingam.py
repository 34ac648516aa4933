"""DirectLiNGAM over silos (ours; Shimizu et al. 2011): an order from errors that are not Gaussian, by masked sums.

Of the variables that are left, the next in the order is the one that no other seems to cause: with the pairwise
contrast R of `secure_linear.py` for every pair, the one with the least Σ_j min(0, R_ij)² (Hyvärinen & Smith 2013, as in
the measure "pwling" of the published program). It is then regressed out of the others, and so on.

What leaves a silo: its part of the second moments, once; then, in each of d − 1 exchanges, its part of two means for
each variable left and for each of their pairs both ways: 2m² numbers for m variables, masked. Residuals are linear in
the rows, so the server, which has the second moments, tells the silos how to make them. Cost at a silo: O(n_p·m²) a
step.
"""

import math
from dataclasses import dataclass, replace

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ..core.protocol import FederatedAlgorithm, Replies, only_field
from ..core.schema import FloatArray, Schema
from ..errors import BadInput, require
from ..graphs.structure import Structure, no_edges
from ..statistics.moments import column_units, in_own_units, product_units, sum_over_chunks
from ..statistics.packing import from_triangle, triangle
from .equal_variance import backward_elimination
from .secure_linear import Silo, degrees_of_freedom, negentropies, open_silo, require_positive_definite

FIGURES = 2
"""means of ln cosh u and of u·e^(−u²/2), of each residual"""
GAUSSIAN = 10.0
"""an error whose negentropy times the rows is below this one may as well be Gaussian"""


@dataclass(frozen=True)
class SecureLingam:
    """Settings of `secure-lingam`."""

    threshold: float = 0.0
    """τ: weights not above it are no edges"""

    def __post_init__(self) -> None:
        """Raise `BadInput` for a value outside its range."""
        require(self.threshold >= 0, "threshold", self.threshold, "0 or more")


@dataclass(frozen=True)
class Broadcast:
    """Nothing, for the second moments; or how the residuals of the m variables left are made of the rows."""

    standard: FloatArray
    """`[d, m]`: rows times this are the residuals, with variance 1"""
    correlations: FloatArray
    """of these residuals, `[m, m]`"""


@dataclass(frozen=True)
class Reply:
    """A silo's part of the second moments `[d(d + 1)/2]`, or of the means of residuals `[2m²]`."""

    values: FloatArray


@dataclass(frozen=True)
class Server:
    """The order so far."""

    schema: Schema
    S: FloatArray
    """second moments within the silos, per row, `[d, d]`; empty before the first sum"""
    rows: int
    """degrees of freedom of S: rows less one for each silo"""
    order: NDArray[np.int64]
    negentropies: FloatArray
    """of the variables in the order, given those before: how far their errors are from Gaussian, in nats a row"""


def build(settings: SecureLingam) -> FederatedAlgorithm[Server, Silo, Broadcast, Reply]:
    """The algorithm: as many exchanges as variables."""
    return FederatedAlgorithm(
        open_silo=open_silo,
        open_server=lambda schema: Server(
            schema.in_order(), np.empty((0, 0)), 0, np.empty(0, np.int64), np.empty(0, np.float64)
        ),
        broadcast=broadcast,
        local_solve=lambda silo, asked: (silo, local_solve(silo, asked)),
        aggregate=aggregate,
        converged=lambda server: len(server.order) == len(server.schema.variables),
        structure=lambda server: structure(server, settings),
        server_type=Server,
        silo_type=Silo,
        broadcast_type=Broadcast,
        reply_type=Reply,
        max_rounds=100_000,
        summand=only_field,
        entry_units=lambda schema, asked: (
            product_units(column_units(schema)) if not len(asked.standard) else np.ones(1)
        ),
        needs_secure_sum=True,
        tolerates_dropout=True,
        measures=lambda server: {"ordered": float(len(server.order))},
        basis=basis,
    )


def broadcast(server: Server) -> Broadcast:
    """Return what the silos are asked: second moments, then about the residuals of the variables left."""
    if not len(server.S):
        return Broadcast(np.empty((0, 0)), np.empty((0, 0)))
    left, S = unordered_variables(server), server.S
    standard = np.zeros((len(S), len(left)))
    standard[left, np.arange(len(left))] = 1.0
    if len(server.order):
        known = server.order
        standard[known] = -np.linalg.solve(S[np.ix_(known, known)], S[np.ix_(known, left)])
    C = standard.T @ S @ standard
    return Broadcast(standard / np.sqrt(np.diag(C)), in_own_units(C))


def unordered_variables(server: Server) -> NDArray[np.int64]:
    """The variables that are not in the order yet, ascending."""
    return np.setdiff1d(np.arange(len(server.schema.variables)), server.order)


def local_solve(silo: Silo, asked: Broadcast) -> Reply:
    """The silo's part of what is asked for, as a part of means over all rows."""
    if not len(asked.standard):
        return Reply(triangle(silo.products / silo.all_rows))

    def of(rows: FloatArray) -> FloatArray:
        residuals = np.ascontiguousarray(((rows - silo.means) @ asked.standard).T)
        return np.asarray(_sums(residuals, asked.correlations))

    return Reply(sum_over_chunks(silo.table, of).ravel() / silo.all_rows)


@njit(cache=True)
def _sums(U, rho):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Σ ln cosh and Σ u·e^(−u²/2): on the diagonal of row i of `U` `[m, n]`, at [i, j] of i given j."""
    m, n = U.shape
    sums = np.zeros((m, m, 2))
    for i in range(m):
        for j in range(m):
            slope = 0.0 if i == j else rho[i, j]
            scale = 1.0 / math.sqrt(max(1.0 - slope * slope, 1e-12))
            flat, odd = 0.0, 0.0
            for k in range(n):
                u = (U[i, k] - slope * U[j, k]) * scale
                size = abs(u)
                flat += size + math.log1p(math.exp(-2.0 * size))
                odd += u * math.exp(-0.5 * u * u)
            sums[i, j, 0], sums[i, j, 1] = flat - n * math.log(2.0), odd
    return sums


def aggregate(server: Server, replies: Replies[Reply]) -> Server:
    """The state with the second moments, or with one variable more in the order."""
    assert replies.total is not None
    schema = server.schema
    counted = sum(schema.rows[silo] for silo in replies.silos)
    of_counted = replies.total * (sum(schema.rows.values()) / counted)
    if not len(server.S):
        rows = degrees_of_freedom(schema, replies)
        if rows <= len(schema.variables):
            told = f"{rows} rows, less one a silo, for {len(schema.variables)} variables"
            raise BadInput(f"secure-lingam regresses each variable on all before it, so it needs more rows: {told}")
        return replace(server, S=require_positive_definite(from_triangle(of_counted), schema), rows=rows)
    left = unordered_variables(server)
    negentropy = negentropies(of_counted.reshape(len(left), len(left), FIGURES))
    own = np.diag(negentropy)
    against = (np.minimum(pairwise(negentropy), 0.0) ** 2).sum(axis=1)
    waits = schema.knowledge.precedes(schema.variables)[np.ix_(left, left)].any(axis=0)
    first = int(np.argmin(np.where(waits, np.inf, against)))
    order, found = [int(left[first])], [float(own[first])]
    if len(left) == 2:
        last = 1 - first
        order.append(int(left[last]))
        found.append(float(negentropy[last, first]))
    return replace(
        server,
        order=np.append(server.order, np.array(order, np.int64)),
        negentropies=np.append(server.negentropies, found),
    )


def pairwise(negentropy: FloatArray) -> FloatArray:
    """R_ij = H(j) + H(r_i|j) − H(i) − H(r_j|i) of every pair, `[m, m]`, above 0 for i → j.

    H is a constant less the `negentropy` `[m, m]`: of i at [i, i], of i given j at [i, j].
    """
    own = np.diag(negentropy)
    R = own[:, None] - own[None, :] + negentropy.T - negentropy
    np.fill_diagonal(R, 0.0)
    return np.asarray(R)


def structure(server: Server, settings: SecureLingam) -> Structure:
    """The DAG of the order, its parents eliminated by BIC with 2 ln d; no edge before the order is whole."""
    names, d = server.schema.variables, len(server.schema.variables)
    if len(server.order) < d:
        return no_edges(names)
    price = math.log(server.rows) + 2 * math.log(d)
    weights = backward_elimination(server.S, server.order, server.rows, price, server.schema.knowledge.prior(names))
    return Structure(names, np.where(np.abs(weights) > settings.threshold, weights, 0.0), scores=np.abs(weights))


def basis(server: Server) -> tuple[str, ...]:
    """Return what the directions rest on, and which errors may as well be Gaussian."""
    told: tuple[str, ...] = ("All directions rest on errors that are not Gaussian and on effects that are linear.",)
    names = [server.schema.variables[v] for v in server.order[server.rows * server.negentropies < GAUSSIAN]]
    if len(names) > 1:
        said = (
            f"The errors of {len(names)} variables look Gaussian ({', '.join(names[:5])}{', …' * (len(names) > 5)}): "
        )
        told += (said + "edges between these could as well point the other way.",)
    return told
