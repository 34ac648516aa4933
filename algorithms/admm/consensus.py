"""Consensus ADMM, the papers' loop (Fassy El Fehri et al., Algorithm 1; Ng & Zhang 2022, Algorithm 1).

It minimises Σ_p L_p(B_p) + λ‖·‖₁ subject to B_p = W and h(W) = 0. In every round:

    silo:    β_p ← β_p + ρ₂(B_p − W)
             B_p ← argmin L_p(B) + ⟨β_p, B − W⟩ + ρ₂/2 ‖B − W‖²
    server:  W ← argmin ρ₂P/2 ‖W − B̄‖² + αh(W) + ρ₁/2 h(W)²,  B̄ = (1/P) Σ_p (B_p + β_p/ρ₂)
             α ← α + ρ₁h(W),  ρ₁ ← γ₁ρ₁,  ρ₂ ← γ₂ρ₂

with the ℓ₁ term on B_p (Fassy El Fehri et al.) or on W (Ng & Zhang). The server needs only ΣB_p: it updates Σβ_p by
Σβ ← Σβ + ρ₂(ΣB_p − P·W), so a secure sum suffices. What leaves a silo in each round: the changed entries of B_p
(`Change`), and ‖B_p − W‖².

The silo's step is that of a `Problem` (`problem.py`), the server's step is `consensus_step` (`acyclicity.py`). `Terms`
are the weights and constraints of a round's problems. The papers' terms are `plain_terms`. Our additions
(`staged_admm.py`) set other terms, which depend on the phase of the run.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from ..core.knowledge import Prior
from ..core.protocol import FederatedAlgorithm, Replies
from ..core.schema import FloatArray, Schema
from ..graphs.dag import break_cycles, strongest_acyclic
from ..graphs.structure import Structure, stacked
from ..secure.masks import FRACTION_BITS
from ..statistics.moments import to_multiples
from ..statistics.packing import Packing, packing
from .acyclicity import consensus_step, soft_threshold
from .problem import Model, Problem, Pull
from .settings import ConsensusSettings

W_STEPS = 15_000
"""maximum number of steps of descent of the server in a round of the papers' loop"""


MAX_WEIGHT = 1e16
"""limit of the growth of ρ₁ and ρ₂, as in the programs of Ng & Zhang and of Chen, Ma & Yue"""


@dataclass(frozen=True)
class Change:
    """Entries of a matrix of this `shape`, as flat positions and values.

    If `positions` is empty, `values` has all entries in row order, or none.
    """

    shape: tuple[int, int]
    positions: NDArray[np.unsignedinteger]
    values: FloatArray

    def put(self, matrix: FloatArray) -> FloatArray:
        """`matrix` with these entries replaced."""
        if len(self.values) == matrix.size:
            return self.values.reshape(self.shape)
        changed = matrix.copy()
        changed.flat[self.positions.astype(np.intp)] = self.values
        return changed

    @property
    def cost(self) -> int:
        """Bytes by the formula of Fassy El Fehri et al., B.2.1."""
        return len(self.values) * (entry_bytes(self.shape) if len(self.positions) else 8)


@dataclass(frozen=True)
class Broadcast:
    """The server's message: the change of W, and ρ₂."""

    W: Change
    rho2: float

    @property
    def cost(self) -> int:
        """Bytes by the formula of Fassy El Fehri et al., B.2.1, with 8 bytes for ρ₂."""
        return self.W.cost + 8


@dataclass(frozen=True)
class Reply:
    """A silo's reply: the change of B_p, and ‖B_p − W‖² of the last round for the stopping rule."""

    B: Change
    gap: float

    @property
    def cost(self) -> int:
        """Bytes by the formula of Fassy El Fehri et al., B.2.1, with 8 bytes for the distance."""
        return self.B.cost + 8


def reply_packing(shape: tuple[int, int]) -> Packing:
    """The packing of a reply for parameters of this `shape`; the server needs only the sum over the silos."""
    return packing(change=shape, gap=())


def summand(reply: Reply) -> FloatArray:
    """`reply` as one vector for the sum."""
    return reply_packing(reply.B.shape).pack(change=reply.B.put(np.zeros(reply.B.shape)), gap=reply.gap)


def entry_bytes(shape: tuple[int, int]) -> int:
    """The bytes of one value with its position: 8 + ⌈log₂(entries)/8⌉ (Fassy El Fehri et al., B.2.1)."""
    return 8 + int(np.ceil(np.log2(max(shape[0] * shape[1], 4)) / 8))


def change_between(old: FloatArray, new: FloatArray) -> Change:
    """The entries of `new` that differ from `old`, as a list; or the full matrix if it has fewer bytes or as many."""
    shape, small = (len(new), new.shape[1]), np.uint16 if new.size <= 1 << 16 else np.uint32
    positions = np.flatnonzero(new != old)
    if len(positions) * entry_bytes(shape) >= 8 * new.size:
        return Change(shape, np.empty(0, small), new.ravel().copy())
    return Change(shape, positions.astype(small), new.ravel()[positions])


def suppress_small_changes(old: FloatArray, new: FloatArray, least: FloatArray) -> FloatArray:
    """`new`, but with `old` in each entry of row i that changed by less than `least[i]`, so that it is not sent."""
    return np.where(np.abs(new - old) < least[:, None], old, new)


# Smaller weights count as zero, because sums of changes have rounding errors in entries that have returned to zero.
NEGLIGIBLE_WEIGHT = 1e-10
# Number of first rounds whose residuals are not used as a stopping rule.
UNINFORMATIVE_ROUNDS = 2


@dataclass(frozen=True)
class Terms:
    """The terms of the optimisation problems of a round."""

    rho2: float
    l1: float
    scale: FloatArray
    """the unit of the penalties of each row, `[m]`; 1 for penalties in plain numbers"""
    free: NDArray[np.bool_]
    """the entries that may differ from zero, `[m, d]`"""
    prices: FloatArray
    """the factor of λ in each row, `[m]`"""
    acyclic: bool = False
    """whether the free entries cannot form a cycle, so that h is always zero"""
    send_threshold: float = 0.0
    """the smallest change of an entry that is sent"""

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
        """The smallest change that is sent in each row, send_threshold·√(min scale / scale_i), `[m]`."""
        return np.asarray(self.send_threshold * np.sqrt(self.scale.min() / self.scale))

    def norm(self, matrix: FloatArray) -> float:
        """The norm of a `[m, d]` matrix; the squares of row i count `scale[i]` times."""
        return float(np.sqrt(self.scale @ (matrix * matrix).sum(axis=1)))


@dataclass(frozen=True)
class Server:
    """The server's state, which depends only on sums over the silos."""

    variables: tuple[str, ...]
    silos: int
    number: int
    """rounds finished"""
    W: FloatArray
    """the consensus, `[m, d]`"""
    W_known: FloatArray
    """the W of the last broadcast, which the silos have"""
    B_sum: FloatArray
    beta_sum: FloatArray
    alpha: float
    rho1: float
    rho2: float
    h: float
    primal: float
    """the root mean square of ‖B_p − W‖ over the silos, relative to ‖W‖; ∞ until round 2"""
    dual: float
    """change of W in the last round, relative to ‖W‖"""
    prior: Prior
    """background knowledge of the graph; impossible edges are never free"""
    l1: float
    """λ for these data"""


State = TypeVar("State", bound=Server)
Nearest = Callable[[FloatArray, FloatArray, FloatArray, float, float, int], tuple[FloatArray, float]]
"""the server's step of a model (see `Model.nearest`)"""


@dataclass(frozen=True)
class Silo:
    """A silo's private state: its problem, computed from its rows, and the state of the rounds."""

    problem: Problem
    rounds: int
    B: FloatArray
    beta: FloatArray
    W: FloatArray
    rho2: float
    prior: Prior
    l1: float
    """λ for these data"""


PERSISTED_STATE = ("rounds", "B", "beta", "W", "rho2")


def with_loops(free: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """`free` `[m, d]` with a free diagonal.

    The diagonal of W is zero. So the consensus with W still draws the diagonal of B_p to zero.
    """
    return free | np.eye(len(free), free.shape[1], dtype=bool)


def plain_terms(model: Model, prior: Prior, rho2: float, l1: float, *, loops: bool = False) -> Terms:
    """The papers' terms: penalties in plain numbers, every possible edge free, every change sent."""
    possible, prices = model.possible(prior.possible), model.penalty_factors(len(prior.possible))
    return Terms(rho2, l1, np.ones(len(prices)), with_loops(possible) if loops else possible, prices)


def open_silo(problem: Problem, model: Model, settings: ConsensusSettings, schema: Schema) -> Silo:
    """A silo's state before round 1."""
    prior = schema.knowledge.prior(schema.variables)
    zero = np.zeros(model.possible(prior.possible).shape)
    return Silo(problem, 0, zero, zero, zero, settings.rho2, prior, settings.price(schema))


def local_step(silo: Silo, W: FloatArray, terms: Terms) -> tuple[FloatArray, FloatArray]:
    """β_p updated for the new consensus `W`, and the new B_p in multiples of 2⁻³².

    Sums of changes of B_p are then exact, both plain and masked.
    """
    beta = silo.beta + (silo.rho2 * terms.scale)[:, None] * (silo.B - W)
    start = np.where(terms.free, silo.B, 0)
    pull = Pull(beta - terms.r[:, None] * W, terms.r, terms.l1_rows, terms.free, start)
    solved = suppress_small_changes(silo.B, silo.problem.solve(pull), terms.least_change)
    return beta, np.where(terms.free, to_multiples(solved, FRACTION_BITS), 0.0)


def gap(silo: Silo, W: FloatArray, terms: Terms) -> float:
    """‖B_p − W‖² with the B_p of the last round; the squares of row i are multiplied by `terms.scale[i]`."""
    apart = silo.B - W
    return float(terms.scale @ (apart * apart).sum(axis=1))


def open_server(schema: Schema, m: int, settings: ConsensusSettings, *, mean_loss: bool = False) -> Server:
    """The server's state before round 1: W `[m, d]` and the duals are 0.

    With `mean_loss`, ρ₂ weighs against the mean of the silos' losses, and not against their sum.
    """
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
        rho2=settings.rho2 * (P if mean_loss else 1),
        h=0.0,
        primal=np.inf,
        dual=np.inf,
        prior=schema.knowledge.prior(schema.variables),
        l1=settings.price(schema),
    )


def change_of_w(server: Server) -> Broadcast:
    """The broadcast: the change of W since the last broadcast, and ρ₂."""
    return Broadcast(change_between(server.W_known, server.W), server.rho2)


def step(
    server: State, change: FloatArray, gaps: float, terms: Terms, w_steps: int, nearest: Nearest = consensus_step
) -> State:
    """The state with the new W, given the silos' summed `change` of B_p and summed ‖B_p − W‖²."""
    P = server.silos
    B_sum = server.B_sum + change
    mean = (B_sum + server.beta_sum / terms.r[:, None]) / P
    target = soft_threshold(mean, (terms.l1_rows / terms.r)[:, None])
    target = np.where(terms.free & (np.abs(target) > NEGLIGIBLE_WEIGHT), target, 0.0)
    if terms.acyclic:
        W, h = target, 0.0
    else:
        W, h = nearest(target, server.W, P * terms.r / terms.scale.min(), server.alpha, server.rho1, w_steps)
    W = np.where(terms.free, suppress_small_changes(server.W, W, terms.least_change), 0.0)
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
    """The state with Σβ and α updated (Ng & Zhang 2022, Eq. 4-5)."""
    return replace(
        server,
        beta_sum=server.beta_sum + terms.r[:, None] * (server.B_sum - server.silos * server.W),
        alpha=server.alpha + server.rho1 * server.h,
    )


def consensus_reached(server: Server, settings: ConsensusSettings) -> bool:
    """Whether the silos agree on W and W has stopped changing, both up to the tolerance."""
    return server.primal < settings.tolerance and server.dual < settings.tolerance


def converged(server: Server, settings: ConsensusSettings) -> bool:
    """Whether W has edges and is acyclic, and the consensus is reached, up to the tolerances."""
    acyclic = bool(server.W.any()) and server.h < settings.h_tolerance
    return acyclic and server.number > UNINFORMATIVE_ROUNDS and consensus_reached(server, settings)


def structure(server: Server, graph: FloatArray, settings: ConsensusSettings) -> Structure:
    """The `graph` of W `[(lags + 1)·d, d]` without entries of magnitude τ or less; required edges are kept anyway.

    Cycles are removed as `repair` says. The `scores` are the absolute values of all entries.
    """
    d = len(server.variables)
    edges = np.abs(graph) > settings.threshold
    edges[:d] |= server.prior.required
    weights = np.where(edges, graph, 0.0)
    within = weights[:d]
    if settings.repair != "no":
        within = break_cycles(within)[0] if settings.repair == "cycles" else strongest_acyclic(within)
    return stacked(server.variables, np.vstack([within, weights[d:]]), np.abs(graph))


def measures(server: Server, graph: FloatArray, settings: ConsensusSettings) -> dict[str, float]:
    """The measures of a round: h, the relative residuals, the number of edges above the threshold, ρ₁ and the phase."""
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
    """The shape of the parameters of `model` for the variables of `schema`, (m, d)."""
    d = len(schema.variables)
    return model.rows(d), d


def consensus_admm(
    settings: ConsensusSettings,
    model: Model,
    *,
    l1_at_server: bool,
    loops: bool = False,
    mean_loss: bool = False,
    w_steps: int = W_STEPS,
) -> FederatedAlgorithm[Server, Silo, Broadcast, Reply]:
    """The papers' algorithm, with the ℓ₁ term on W if `l1_at_server`, otherwise on B_p.

    `loops` leaves the diagonal of B_p free, as Ng & Zhang do; for `mean_loss` see `open_server`. The server descends
    for at most `w_steps` steps a round.
    """

    def local_solve(silo: Silo, broadcast: Broadcast) -> tuple[Silo, Reply]:
        W = broadcast.W.put(silo.W)
        terms = plain_terms(model, silo.prior, broadcast.rho2, 0.0 if l1_at_server else silo.l1, loops=loops)
        beta, B = local_step(silo, W, terms)
        reply = Reply(change_between(np.zeros_like(B), B - silo.B), gap(silo, W, terms))
        return replace(silo, rounds=silo.rounds + 1, B=B, beta=beta, W=W, rho2=broadcast.rho2), reply

    def terms_of(server: Server) -> Terms:
        return plain_terms(model, server.prior, server.rho2, server.l1 if l1_at_server else 0.0)

    def aggregate(server: Server, replies: Replies[Reply]) -> Server:
        sent = reply_packing(server.W.shape).unpack(replies.total)
        return step(server, sent["change"], float(sent["gap"]), terms_of(server), w_steps, model.nearest)

    def dual_update(server: Server) -> Server:
        updated = duals(server, terms_of(server))
        rho1, rho2 = server.rho1 * settings.rho1_growth, server.rho2 * settings.rho2_growth
        return replace(updated, rho1=min(rho1, MAX_WEIGHT), rho2=min(rho2, MAX_WEIGHT))

    return FederatedAlgorithm(
        open_silo=lambda table, schema, silo, rng: open_silo(
            model.problem(table, schema, silo), model, settings, schema
        ),
        open_server=lambda schema: open_server(
            schema, model.rows(len(schema.variables)), settings, mean_loss=mean_loss
        ),
        broadcast=change_of_w,
        local_solve=local_solve,
        aggregate=aggregate,
        dual_update=dual_update,
        converged=lambda server: converged(server, settings),
        structure=lambda server: structure(server, model.to_adjacency(server.W), settings),
        server_type=Server,
        broadcast_type=Broadcast,
        reply_type=Reply,
        max_rounds=settings.rounds,
        summand=summand,
        measures=lambda server: measures(server, model.to_adjacency(server.W), settings),
        cost=lambda message: int(message.cost),
        persisted_state=PERSISTED_STATE,
    )
