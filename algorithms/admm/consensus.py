"""Consensus ADMM, the papers' loop (Fassy El Fehri et al., Algorithm 1; Ng & Zhang 2022, Algorithm 1).

Minimise Σ_p L_p(B_p) + λ‖·‖₁ subject to B_p = W and h(W) = 0. In every round

    silo:    β_p ← β_p + ρ₂(B_p − W)
             B_p ← argmin L_p(B) + ⟨β_p, B − W⟩ + ρ₂/2 ‖B − W‖²
    server:  W ← argmin ρ₂P/2 ‖W − B̄‖² + αh(W) + ρ₁/2 h(W)²,  B̄ = (1/P) Σ_p (B_p + β_p/ρ₂)
             α ← α + ρ₁h(W),  ρ₁ ← γ₁ρ₁,  ρ₂ ← γ₂ρ₂

with the ℓ₁ term on B_p (Fassy El Fehri et al.) or on W (Ng & Zhang). The server needs ΣB_p alone: it follows Σβ_p by
Σβ ← Σβ + ρ₂(ΣB_p − P·W), so a secure sum is enough. What leaves a silo: the change of B_p, and ‖B_p − W‖².

`Terms` say on what terms a round is solved. The papers' are `plain_terms`; what we add to the loop (`refined.py`) only
sets other terms, and moves from phase to phase.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from ..core.knowledge import Prior
from ..core.protocol import FederatedAlgorithm, Replies
from ..core.schema import FloatArray, Schema
from ..graphs.dag import break_cycles
from ..graphs.structure import Structure, stacked
from ..secure.ring import FRACTION_BITS
from ..statistics.rounding import to_multiples
from .consensus_step import consensus_step, soft_threshold
from .messages import NOTHING, Broadcast, Reply, change_between, hold_back, reply_packing, summand
from .problem import Model, Problem, Pull
from .settings import ConsensusSettings

# Sums of changes leave rounding where an entry has gone back to zero: anything below this is zero.
NEGLIGIBLE = 1e-10
# Residuals say something from the third round on.
FIRST_ROUNDS = 2


@dataclass(frozen=True)
class Terms:
    """On what terms a round is solved."""

    rho2: float
    l1: float
    scale: FloatArray
    """what the penalties of each row are measured in, `[m]`; ones: plain numbers"""
    free: NDArray[np.bool_]
    """the entries that may differ from zero, `[m, d]`"""
    prices: FloatArray
    """what λ is multiplied by in each row, `[m]`"""
    acyclic: bool = False
    """whether the free entries cannot make a cycle: h is zero then, whatever W is"""
    hold: float = 0.0
    """the least change of an entry worth sending"""

    @property
    def r(self) -> FloatArray:
        """ρ₂ in each row, `[m]`."""
        return self.rho2 * self.scale

    @property
    def l1_rows(self) -> FloatArray:
        """λ in each row, λ·price_i·√(scale_i · min scale), `[m]`."""
        return np.asarray(self.l1 * self.prices * np.sqrt(self.scale * self.scale.min()))

    @property
    def least_change(self) -> FloatArray:
        """The least change worth sending in each row, hold·√(min scale / scale_i), `[m]`."""
        return np.asarray(self.hold * np.sqrt(self.scale.min() / self.scale))

    def norm(self, matrix: FloatArray) -> float:
        """Return the norm of a `[m, d]` matrix with its rows in their scales."""
        return float(np.sqrt(self.scale @ (matrix * matrix).sum(axis=1)))


@dataclass(frozen=True)
class Server:
    """The server's state: nothing of it comes from one silo alone."""

    variables: tuple[str, ...]
    silos: int
    number: int
    """rounds finished"""
    W: FloatArray
    """the consensus, `[m, d]`"""
    W_known: FloatArray
    """W as the silos know it"""
    B_sum: FloatArray
    beta_sum: FloatArray
    alpha: float
    rho1: float
    rho2: float
    h: float
    primal: float
    """‖B_p − W‖ over the silos, relative to ‖W‖"""
    dual: float
    """how far W moved in the last round, relative to ‖W‖"""
    prior: Prior
    """what is known of the graph beforehand; edges that cannot be are never free"""


State = TypeVar("State", bound=Server)
Nearest = Callable[[FloatArray, FloatArray, FloatArray, float, float, int], tuple[FloatArray, float]]
"""the server's problem, as a model solves it: see `Model.nearest`"""


@dataclass(frozen=True)
class Silo:
    """A silo's private state: its problem is made from the rows, the rest is what the rounds have come to."""

    problem: Problem
    rounds: int
    B: FloatArray
    beta: FloatArray
    W: FloatArray
    rho2: float
    prior: Prior


KEPT = ("rounds", "B", "beta", "W", "rho2")


def with_loops(free: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return `free` `[m, d]` with the diagonal free, too.

    Only the consensus with W, where the diagonal is zero, then draws that of B_p to zero.
    """
    return free | np.eye(len(free), free.shape[1], dtype=bool)


def plain_terms(model: Model, prior: Prior, rho2: float, l1: float, *, loops: bool = False) -> Terms:
    """Return the papers' terms: penalties in plain numbers, every edge free that may be, every change sent."""
    possible, prices = model.possible(prior.possible), model.prices(len(prior.possible))
    return Terms(rho2, l1, np.ones(len(prices)), with_loops(possible) if loops else possible, prices)


def open_silo(problem: Problem, model: Model, settings: ConsensusSettings, prior: Prior) -> Silo:
    """Return a silo's state before round 1."""
    zero = np.zeros(model.possible(prior.possible).shape)
    return Silo(problem, 0, zero, zero, zero, settings.rho2, prior)


def local_step(silo: Silo, W: FloatArray, terms: Terms) -> tuple[FloatArray, FloatArray]:
    """Return β_p updated for the consensus `W` just received, and the new B_p, in whole 2⁻³² parts.

    Sums of changes of B_p are then exact, in the clear and as fixed-point numbers behind masks.
    """
    beta = silo.beta + (silo.rho2 * terms.scale)[:, None] * (silo.B - W)
    start = np.where(terms.free, silo.B, 0)
    pull = Pull(beta - terms.r[:, None] * W, terms.r, terms.l1_rows, terms.free, start)
    solved = hold_back(silo.B, silo.problem.solve(pull), terms.least_change)
    return beta, np.where(terms.free, to_multiples(solved, FRACTION_BITS), 0.0)


def gap(silo: Silo, W: FloatArray, terms: Terms) -> float:
    """Return ‖B_p − W‖² with the B_p of the last round."""
    apart = silo.B - W
    return float(terms.scale @ (apart * apart).sum(axis=1))


def open_server(schema: Schema, m: int, settings: ConsensusSettings) -> Server:
    """Return the server's state before round 1: W = 0 `[m, d]`, no duals."""
    P = len(schema.rows)
    zero = np.zeros((m, len(schema.variables)))
    return Server(
        variables=schema.variables,
        silos=P,
        number=0,
        W=zero,
        W_known=zero,
        B_sum=zero,
        beta_sum=zero,
        alpha=0.0,
        rho1=settings.rho1 * P,
        rho2=settings.rho2,
        h=0.0,
        primal=np.inf,
        dual=np.inf,
        prior=schema.knowledge.prior(schema.variables),
    )


def change_of_w(server: Server) -> Broadcast:
    """Return what all silos are told: the change of W since they last heard of it, and ρ₂."""
    return Broadcast(change_between(server.W_known, server.W), server.rho2)


def step(
    server: State, change: FloatArray, gaps: float, terms: Terms, w_steps: int, nearest: Nearest = consensus_step
) -> State:
    """Return the state with the new W, given the silos' summed `change` of B_p and summed ‖B_p − W‖²."""
    P = server.silos
    B_sum = server.B_sum + change
    mean = (B_sum + server.beta_sum / terms.r[:, None]) / P
    target = soft_threshold(mean, (terms.l1_rows / terms.r)[:, None])
    target = np.where(terms.free & (np.abs(target) > NEGLIGIBLE), target, 0.0)
    if terms.acyclic:
        W, h = target, 0.0
    else:
        W, h = nearest(target, server.W, P * terms.r / terms.scale.min(), server.alpha, server.rho1, w_steps)
    W = np.where(terms.free, hold_back(server.W, W, terms.least_change), 0.0)
    size = max(terms.norm(W), float(np.sqrt(terms.scale.min())))
    return replace(
        server,
        number=server.number + 1,
        W=W,
        W_known=server.W,
        B_sum=B_sum,
        h=h,
        primal=float(np.sqrt(gaps / P)) / size if server.number else np.inf,
        dual=terms.norm(W - server.W) / size,
    )


def duals(server: State, terms: Terms) -> State:
    """Return the state with Σβ and α updated (Ng & Zhang 2022, Eq. 4-5)."""
    return replace(
        server,
        beta_sum=server.beta_sum + terms.r[:, None] * (server.B_sum - server.silos * server.W),
        alpha=server.alpha + server.rho1 * server.h,
    )


def agreed(server: Server, settings: ConsensusSettings) -> bool:
    """Return whether the silos agree on W, and W stands still, to the tolerance."""
    return server.primal < settings.tolerance and server.dual < settings.tolerance


def converged(server: Server, settings: ConsensusSettings) -> bool:
    """Return whether W is acyclic and the silos agree on it, to the tolerances."""
    acyclic = bool(server.W.any()) and server.h < settings.h_tolerance
    return acyclic and server.number > FIRST_ROUNDS and agreed(server, settings)


def structure(server: Server, graph: FloatArray, settings: ConsensusSettings) -> Structure:
    """Return the `graph` of W `[(lags + 1)·d, d]` without the entries of at most τ; `scores` are those before it.

    Required edges stay, however small.
    """
    d = len(server.variables)
    kept = np.abs(graph) > settings.threshold
    kept[:d] |= server.prior.required
    weights = np.where(kept, graph, 0.0)
    within = break_cycles(weights[:d])[0] if settings.repair else weights[:d]
    return stacked(server.variables, np.vstack([within, weights[d:]]), np.abs(graph))


def measures(server: Server, graph: FloatArray, settings: ConsensusSettings) -> dict[str, float]:
    """Return what to follow: h, the relative residuals, edges above the threshold, ρ₁."""
    d = len(server.variables)
    edges = np.abs(graph) > settings.threshold
    return {
        "h": server.h,
        "primal": server.primal if np.isfinite(server.primal) else 1.0,
        "dual": server.dual,
        "edges": float(edges[:d].sum()),
        **({"lagged_edges": float(edges[d:].sum())} if len(graph) > d else {}),
        "rho1": server.rho1,
        "phase": 1.0,
    }


def shape_of(model: Model, schema: Schema) -> tuple[int, int]:
    """Return the shape of the parameters of `model` for the variables of `schema`, (m, d)."""
    d = len(schema.variables)
    return model.rows(d), d


def consensus_admm(
    settings: ConsensusSettings, model: Model, *, l1_at_server: bool, loops: bool = False
) -> FederatedAlgorithm[Server, Silo, Broadcast, Reply]:
    """Return the papers' algorithm, with the ℓ₁ term on W if `l1_at_server`, else on B_p.

    `loops` leaves the diagonal of B_p free, as Ng & Zhang do.
    """
    server_l1, silo_l1 = (settings.l1, 0.0) if l1_at_server else (0.0, settings.l1)

    def local_solve(silo: Silo, broadcast: Broadcast) -> tuple[Silo, Reply]:
        W = broadcast.W.put(silo.W)
        terms = plain_terms(model, silo.prior, broadcast.rho2, silo_l1, loops=loops)
        beta, B = local_step(silo, W, terms)
        reply = Reply(change_between(np.zeros_like(B), B - silo.B), NOTHING, gap(silo, W, terms), NOTHING)
        return Silo(silo.problem, silo.rounds + 1, B, beta, W, broadcast.rho2, silo.prior), reply

    def terms_of(server: Server) -> Terms:
        return plain_terms(model, server.prior, server.rho2, server_l1)

    def aggregate(server: Server, replies: Replies[Reply]) -> Server:
        assert replies.total is not None
        sent = reply_packing(server.W.shape, 0).unpack(replies.total)
        return step(server, sent["change"], float(sent["gap"]), terms_of(server), settings.w_steps, model.nearest)

    def dual_update(server: Server) -> Server:
        updated = duals(server, terms_of(server))
        return replace(updated, rho1=server.rho1 * settings.rho1_growth, rho2=server.rho2 * settings.rho2_growth)

    return FederatedAlgorithm(
        open_silo=lambda table, schema, silo, rng: open_silo(
            model.problem(table, schema, silo), model, settings, schema.knowledge.prior(schema.variables)
        ),
        open_server=lambda schema: open_server(schema, model.rows(len(schema.variables)), settings),
        broadcast=change_of_w,
        local_solve=local_solve,
        aggregate=aggregate,
        dual_update=dual_update,
        converged=lambda server: converged(server, settings),
        structure=lambda server: structure(server, model.to_adjacency(server.W), settings),
        server_type=Server,
        silo_type=Silo,
        broadcast_type=Broadcast,
        reply_type=Reply,
        max_rounds=settings.rounds,
        summand=summand,
        measures=lambda server: measures(server, model.to_adjacency(server.W), settings),
        cost=lambda message: int(message.cost),
        kept=KEPT,
    )
