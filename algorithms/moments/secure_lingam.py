"""DirectLiNGAM over silos (ours; Shimizu et al. 2011): an order from errors that are not Gaussian, by masked sums.

In each step, the next variable i in the order is the one that seems to have no cause among the remaining variables: it
has the least Σ_j min(0, R_ij)². R is the pairwise contrast of `non_gaussian.py` (Hyvärinen & Smith 2013, as in the
measure "pwling" of the published program). Variable i is then regressed out of the others.

What leaves a silo: first its part of the second moments, once. Then, in each of d − 1 exchanges, the silo sends 2m²
masked numbers: its part of two means for each of the m remaining variables and for each of their ordered pairs.
Residuals are linear in the rows, so the server computes their coefficients from the second moments and sends them to
the silos. Cost at a silo of n_p rows: O(n_p·m²) per exchange.
"""

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ..compiled import njit
from ..core.protocol import FederatedAlgorithm, Replies, Summand, sum_each_round
from ..core.schema import FloatArray, Schema
from ..core.settings import NonNegative, Settings
from ..errors import BadInput
from ..graphs.structure import Structure, empty_structure
from ..statistics.moments import column_units, product_units, require_positive_definite, sum_over_chunks, unit_diagonal
from ..statistics.packing import from_triangle, triangle
from .elimination import backward_elimination
from .non_gaussian import negentropies
from .secure_linear import Silo, degrees_of_freedom, open_silo

MEANS_PER_RESIDUAL = 2
"""number of means of each residual u: those of ln cosh u and of u·e^(−u²/2)"""
GAUSSIAN_THRESHOLD = 10.0
"""errors are compatible with a Gaussian if their negentropy times the number of rows is below this"""


@dataclass(frozen=True)
class SecureLingam(Settings):
    """Settings of `secure-lingam`."""

    threshold: NonNegative = 0.0
    """τ: edges with smaller absolute weight are dropped"""


@dataclass(frozen=True)
class Broadcast:
    """The request for the means of the residuals of the m remaining variables; if empty, for second moments."""

    standard: FloatArray
    """a matrix `[d, m]`; rows times this matrix are the residuals, with variance 1"""
    correlations: FloatArray
    """correlations of these residuals, `[m, m]`"""


@dataclass(frozen=True)
class Server:
    """The second moments and the order so far."""

    schema: Schema
    S: FloatArray
    """second moments within the silos, per row, `[d, d]`; empty before the first sum"""
    rows: int
    """degrees of freedom of S: rows minus one for each silo"""
    order: NDArray[np.int64]
    negentropies: FloatArray
    """for each variable in the order, the negentropy given the earlier variables, in nats per row; 0 if Gaussian"""


def build(settings: SecureLingam) -> FederatedAlgorithm[Server, Silo, Broadcast, Summand]:
    """The algorithm: as many exchanges as variables."""
    return sum_each_round(
        open_silo=open_silo,
        open_server=lambda schema: Server(
            schema.in_order(), np.empty((0, 0)), 0, np.empty(0, np.int64), np.empty(0, np.float64)
        ),
        broadcast=broadcast,
        part=part,
        aggregate=aggregate,
        converged=lambda server: len(server.order) == len(server.schema.variables),
        structure=lambda server: structure(server, settings),
        server_type=Server,
        broadcast_type=Broadcast,
        max_rounds=100_000,
        entry_units=lambda schema, request: (
            product_units(column_units(schema)) if not len(request.standard) else np.ones(1)
        ),
        needs_secure_sum=True,
        measures=lambda server: {"ordered": float(len(server.order))},
        basis=basis,
    )


def broadcast(server: Server) -> Broadcast:
    """The request for second moments, then for the means of the residuals of the remaining variables."""
    if not len(server.S):
        return Broadcast(np.empty((0, 0)), np.empty((0, 0)))
    unordered, S = unordered_variables(server), server.S
    standard = np.zeros((len(S), len(unordered)))
    standard[unordered, np.arange(len(unordered))] = 1.0
    if len(server.order):
        ordered = server.order
        standard[ordered] = -np.linalg.solve(S[np.ix_(ordered, ordered)], S[np.ix_(ordered, unordered)])
    C = standard.T @ S @ standard
    return Broadcast(standard / np.sqrt(np.diag(C)), unit_diagonal(C))


def unordered_variables(server: Server) -> NDArray[np.int64]:
    """The variables that are not yet in the order, ascending."""
    return np.setdiff1d(np.arange(len(server.schema.variables)), server.order)


def part(silo: Silo, request: Broadcast) -> FloatArray:
    """The silo's part of the requested sums, divided by the number of all rows."""
    if not len(request.standard):
        return triangle(silo.products / silo.all_rows)
    m = request.standard.shape[1]
    if request.correlations.shape != (m, m):  # compiled code would otherwise read out of bounds
        raise BadInput(f"the request has not the correlations of the {m} residuals that it defines")

    means = silo.means

    def residual_sums(rows: FloatArray) -> FloatArray:
        return sums_of_residuals((rows - means) @ request.standard, request.correlations)

    return np.asarray(sum_over_chunks(silo.table, residual_sums).ravel() / silo.all_rows)


def sums_of_residuals(residuals: FloatArray, correlations: FloatArray) -> FloatArray:
    """The sums over `residuals` `[n, m]` with these `correlations` `[m, m]` (see `_sums`)."""
    return np.asarray(_sums(np.ascontiguousarray(residuals.T), correlations))


@njit(cache=True)
def _sums(U, rho):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Σ ln cosh u and Σ u·e^(−u²/2): at [i, i], u is row i of `U` `[m, n]`; at [i, j], its residual given row j."""
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


def aggregate(server: Server, replies: Replies[Summand]) -> Server:
    """The state with the second moments, or with one more variable in the order."""
    schema = server.schema
    answered_rows = sum(schema.rows[silo] for silo in replies.silos)
    rescaled = replies.total * (sum(schema.rows.values()) / answered_rows)
    if not len(server.S):
        rows = degrees_of_freedom(schema, replies.silos)
        if rows <= len(schema.variables):
            sizes = f"{rows} rows, less one a silo, for {len(schema.variables)} variables"
            raise BadInput(f"secure-lingam regresses each variable on all earlier ones, so it needs more rows: {sizes}")
        return replace(server, S=require_positive_definite(from_triangle(rescaled), schema), rows=rows)
    unordered = unordered_variables(server)
    negentropy = negentropies(rescaled.reshape(len(unordered), len(unordered), MEANS_PER_RESIDUAL))
    own = np.diag(negentropy)
    penalty = (np.minimum(pairwise(negentropy), 0.0) ** 2).sum(axis=1)
    preceded = schema.knowledge.precedence(schema.variables)[np.ix_(unordered, unordered)].any(axis=0)
    first = int(np.argmin(np.where(preceded, np.inf, penalty)))
    order, found = [int(unordered[first])], [float(own[first])]
    if len(unordered) == 2:
        last = 1 - first
        order.append(int(unordered[last]))
        found.append(float(negentropy[last, first]))
    return replace(
        server,
        order=np.append(server.order, np.array(order, np.int64)),
        negentropies=np.append(server.negentropies, found),
    )


def pairwise(negentropy: FloatArray) -> FloatArray:
    """R_ij = H(j) + H(r_i|j) − H(i) − H(r_j|i) of every pair, `[m, m]`, above 0 for i → j.

    H is a constant minus the negentropy. `negentropy` `[m, m]` has the value of i at [i, i], and the value of i given j
    at [i, j].
    """
    own = np.diag(negentropy)
    R = own[:, None] - own[None, :] + negentropy.T - negentropy
    np.fill_diagonal(R, 0.0)
    return np.asarray(R)


def structure(server: Server, settings: SecureLingam) -> Structure:
    """The DAG of the order after backward elimination by BIC with 2 ln d; no edges before the order is complete."""
    names, d = server.schema.variables, len(server.schema.variables)
    if len(server.order) < d:
        return empty_structure(names)
    price = math.log(server.rows) + 2 * math.log(d)
    weights = backward_elimination(server.S, server.order, server.rows, price, server.schema.knowledge.prior(names))
    return Structure(names, np.where(np.abs(weights) > settings.threshold, weights, 0.0), scores=np.abs(weights))


def basis(server: Server) -> tuple[str, ...]:
    """The assumptions behind the directions, and the variables whose errors look Gaussian."""
    lines: tuple[str, ...] = ("All directions rest on errors that are not Gaussian and on effects that are linear.",)
    names = [server.schema.variables[v] for v in server.order[server.rows * server.negentropies < GAUSSIAN_THRESHOLD]]
    if len(names) > 1:
        gaussian = (
            f"The errors of {len(names)} variables look Gaussian ({', '.join(names[:5])}{', …' * (len(names) > 5)}): "
        )
        lines += (gaussian + "edges between these could as well point the other way.",)
    return lines
