"""Consensus ADMM with our additions to the papers' loop: scaled penalties, a refined order, a send threshold.

A run passes through stages (`phases.py`). In each stage, the steps are those of `consensus.py` with other `Terms`, and
messages have further fields. Only the fit without λ has its own steps (`fit_step`, `after_fit`). The additions:

- scaling: penalties are measured in the variables' mean squares, which the silos send once;
- order refinement: phases in which an order is fixed and improved (`phases.py`, `orders.py`), and weights are fitted
  without λ (`model_metric.py`);
- send threshold: small changes of an entry are not sent.

What leaves a silo besides the changes of B_p and ‖B_p − W‖²: once, the mean squares of its variables; for each move
that the server proposes, the change of a sum of conditional variances; and, in the rounds that evaluate moves before a
fit and in the rounds of the fit, the mean squares of its residuals under W.
"""

from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from ..core.protocol import FederatedAlgorithm, Replies, Sparse
from ..core.schema import AUTO, FloatArray, Schema
from ..statistics.moments import residual_variances
from ..statistics.packing import Packing, packing
from . import consensus
from .consensus import UNINFORMATIVE_ROUNDS, Terms, change_between
from .model_metric import column_change, dual_step, fit_silo, implied_covariance, metric_weight
from .orders import NO_MOVES, NO_ORDER, Moves, free_entries, variance_changes
from .phases import EMPTY, Phase, Stage, first_phase, next_phase, remaining_support, reread
from .problem import LinearModel, LinearProblem, replace_zeros
from .settings import RefinedSettings

RHO2_TIGHTENING = 1.2
"""the factor per round by which ρ₂ grows to its old value, after a change of the free entries has made it small"""
W_STEPS = 5
"""maximum number of steps of descent of the server in a round"""
RHO2_FIXED_ORDER = 0.03
"""ρ₂ once the order is fixed: the problem is then convex, and a looser consensus converges sooner"""
MAX_DROP = 0.1
"""largest entry of the silos' mean that an automatic λ at the server may set to zero in a round, λ/ρ₂"""
MAX_FIT_NOISE = 0.05
"""there is a fit without λ only if the noise in its weights, about √(2 ln d / n), is below this number"""
LASSO_TOLERANCE_FACTOR = 3
"""if a fit without λ follows, the lasso before the fit stops at this multiple of the tolerance"""


@dataclass(frozen=True)
class Broadcast(consensus.Broadcast):
    """The papers' broadcast, with our additions; they are empty in most rounds."""

    scale: FloatArray = field(default_factory=lambda: EMPTY)
    """the unit of the penalties, `[m]`, sent once"""
    place: NDArray[np.int64] = field(default_factory=lambda: NO_ORDER)
    """each variable's position in a newly settled order, `[d]`"""
    moves: Moves = field(default_factory=lambda: NO_MOVES)
    """moves in the settled order for the silos to evaluate"""
    relax: bool = False
    """whether from now on only the nonzero entries of W are free, and λ is zero; False in a fit of all entries that the
    order allows, which has no λ either"""
    measure: bool = False
    """whether the silos must send the mean squared residuals under W"""
    variances: FloatArray = field(default_factory=lambda: EMPTY)
    """mean squared residuals under the last W, `[d]`, averaged over the silos; empty before the fit without λ"""

    @property
    def cost(self) -> int:
        """Bytes by the formula of Fassy El Fehri et al., B.2.1, with 8 bytes for each number besides W."""
        return super().cost + 8 * (len(self.scale) + len(self.place) + self.moves.size + len(self.variances))


@dataclass(frozen=True)
class Reply(consensus.Reply):
    """The papers' reply, with our additions."""

    scale: FloatArray = field(default_factory=lambda: EMPTY)
    """the variables' mean squares, in the first round of a run with scaled penalties"""
    changes: FloatArray = field(default_factory=lambda: EMPTY)
    """change of Σ_j var(x_j | predecessors) under each proposed move"""
    variances: FloatArray = field(default_factory=lambda: EMPTY)
    """mean squared residuals under W in this silo, `[d]`, if the server requested them"""

    @property
    def cost(self) -> int:
        """Bytes by the formula of Fassy El Fehri et al., B.2.1, with 8 bytes for each number besides B_p."""
        return super().cost + 8 * (len(self.scale) + len(self.changes) + len(self.variances))


def reply_packing(shape: tuple[int, int], moves: int, *, measured: bool) -> Packing:
    """The packing of a reply for parameters of this `shape`, with the variances if they are `measured`."""
    return packing(change=shape, scale=shape[0], gap=(), changes=moves, variances=shape[1] if measured else 0)


def summand(reply: Reply) -> FloatArray:
    """`reply` as one vector for the sum."""
    shape = reply.B.shape
    return reply_packing(shape, len(reply.changes), measured=len(reply.variances) > 0).pack(
        change=reply.B.put(np.zeros(shape)),
        scale=reply.scale if len(reply.scale) else None,
        gap=reply.gap,
        changes=reply.changes,
        variances=reply.variances,
    )


@dataclass(frozen=True)
class Server(consensus.Server):
    """The server's state: that of the papers' loop, the scale of the penalties, and the phase of the run."""

    rows: int
    """number of rows of all silos"""
    scale: FloatArray
    """the unit of the penalties, `[m]`; ones until the first replies"""
    phase: Phase
    last: Stage
    """the last stage of the run"""
    full_rho2: float
    """ρ₂ before an order is fixed, and the limit of its growth afterwards"""

    @property
    def measured(self) -> bool:
        """Whether the silos send their mean squared residuals under W in this round."""
        return self.last is Stage.FITTED and self.phase.stage in (Stage.JUDGING, Stage.FITTED)

    @property
    def worth(self) -> float:
        """The smallest decrease of the silos' summed variances for which a move is made: P·(d/n̄)·m.

        P is the number of silos, n̄ their mean number of rows, and m the smallest mean square.
        """
        d = len(self.variables)
        return d * self.silos / self.rows * self.silos * float(self.scale.min())


@dataclass(frozen=True)
class Silo(consensus.Silo):
    """A silo's private state."""

    problem: LinearProblem
    scale: FloatArray
    """the unit of the penalties, `[m]`: this silo's own mean squares until the federation's are known"""
    place: NDArray[np.int64]
    """each variable's position in the settled order, `[d]`; empty before an order is settled"""
    support: NDArray[np.bool_]
    """entries not yet excluded, `[m, d]`"""
    possible: NDArray[np.bool_]
    """entries that background knowledge allows, `[m, d]`"""
    variances: FloatArray
    """the variances that, with W, gave the metric of the fit in the last round; empty before the fit"""


PERSISTED_STATE = (*consensus.PERSISTED_STATE, "scale", "place", "support", "variances")


def refined_admm(
    settings: RefinedSettings,
    model: LinearModel,
    *,
    l1_at_server: bool,
    loops: bool = False,
    mean_loss: bool = False,
) -> FederatedAlgorithm[Server, Silo, Broadcast, Reply]:
    """Consensus ADMM with the additions of `settings`; for the other arguments see `consensus.consensus_admm`."""
    return FederatedAlgorithm(
        open_silo=lambda table, schema, silo, rng: open_silo(
            model.problem(table, schema, silo), model, settings, schema
        ),
        open_server=lambda schema: open_server(schema, model, settings, l1_at_server=l1_at_server, mean_loss=mean_loss),
        broadcast=lambda server: broadcast(server, settings),
        local_solve=lambda silo, message: local_solve(silo, message, model, l1_at_server, loops, settings),
        aggregate=lambda server, replies: aggregate(server, replies, model, l1_at_server, settings),
        dual_update=lambda server: dual_update(server, model, settings),
        converged=lambda server: converged(server, settings),
        structure=lambda server: consensus.structure(server, model.to_adjacency(server.W), settings),
        server_type=Server,
        broadcast_type=Broadcast,
        reply_type=Reply,
        max_rounds=settings.rounds,
        summand=summand,
        sparse=sparse,
        measures=lambda server: (
            consensus.measures(server, model.to_adjacency(server.W), settings) | {"phase": server.phase.number}
        ),
        cost=lambda message: int(message.cost),
        persisted_state=PERSISTED_STATE,
    )


def open_silo(problem: LinearProblem, model: LinearModel, settings: RefinedSettings, schema: Schema) -> Silo:
    """A silo's state before round 1."""
    opened = consensus.open_silo(problem, model, settings, schema)
    S, possible = problem.moments.S, model.possible(opened.prior.possible)
    scale = replace_zeros(np.diag(S)) if settings.scaled else np.ones(len(S))
    return Silo(
        **vars(opened) | {"problem": problem},
        scale=scale,
        place=NO_ORDER,
        support=possible,
        possible=possible,
        variances=EMPTY,
    )


def open_server(
    schema: Schema, model: LinearModel, settings: RefinedSettings, *, l1_at_server: bool, mean_loss: bool = False
) -> Server:
    """The server's state before round 1."""
    shape = consensus.shape_of(model, schema)
    plain = consensus.open_server(schema, shape[0], settings, mean_loss=mean_loss)
    rows = sum(schema.windows(model.lags).values())
    last = last_stage(shape, rows, plain.l1, relax=settings.relax)
    phase = first_phase(model.possible(plain.prior.possible))
    # With few rows, an automatic λ is large. A small ρ₂ would then let the server set most entries to zero.
    rho2 = max(plain.rho2, plain.l1 / MAX_DROP) if l1_at_server and settings.l1 == AUTO else plain.rho2
    state = vars(plain) | {"rho2": rho2, "full_rho2": rho2}
    return Server(**state, rows=rows, scale=np.ones(shape[0]), phase=phase, last=last)


def last_stage(shape: tuple[int, int], rows: int, l1: float, *, relax: bool) -> Stage:
    """The last stage of a run with parameters of this `shape`.

    λ is removed only if `rows` are enough to fit weights rather than noise.
    """
    m, d = shape
    noise = float(np.sqrt(2 * np.log(d) / rows))
    if not relax or noise >= (l1 if m > d else MAX_FIT_NOISE):
        return Stage.ORDERED
    return Stage.RELAXED if m > d else Stage.FITTED


def broadcast(server: Server, settings: RefinedSettings) -> Broadcast:
    """The broadcast: the papers' message, and our additions (new scales, a new order, moves, whether λ is off)."""
    phase = server.phase
    return Broadcast(
        **vars(consensus.change_of_w(server))
        | {
            "scale": server.scale if server.number == 1 and settings.scaled else EMPTY,
            "place": phase.place if phase.new_order else NO_ORDER,
            "moves": phase.moves,
            "relax": phase.stage is Stage.RELAXED or (phase.stage is Stage.FITTED and not phase.full),
        },
        measure=server.measured,
        variances=phase.variances if phase.stage is Stage.FITTED else EMPTY,
    )


def local_solve(
    silo: Silo, message: Broadcast, model: LinearModel, l1_at_server: bool, loops: bool, settings: RefinedSettings
) -> tuple[Silo, Reply]:
    """Apply the broadcast, perform the local step on its terms, and evaluate the proposed moves."""
    W = message.W.put(silo.W)
    updated = update_from_broadcast(silo, message, W)
    free = free_entries(updated.place, updated.support)
    terms = Terms(
        message.rho2,
        0.0 if message.relax or l1_at_server else silo.l1,
        updated.scale,
        consensus.with_loops(free) if loops else free,
        model.penalty_factors(W.shape[1]),
        send_threshold=settings.send_threshold,
    )
    fits = len(message.variances) > 0
    beta, B = fit_step(silo, message, W, free) if fits else consensus.local_step(updated, W, terms)
    reply = Reply(
        B=change_between(np.zeros_like(B), B - silo.B),
        scale=updated.scale if settings.scaled and silo.rounds == 0 else EMPTY,
        gap=consensus.gap(silo, W, terms),
        changes=evaluate_moves(silo.problem, W, updated.place, message.moves),
        variances=residual_variances(silo.problem.moments.S, W) if message.measure else EMPTY,
    )
    following = replace(updated, rounds=silo.rounds + 1, B=B, beta=beta, W=W, rho2=message.rho2)
    return replace(following, variances=message.variances), reply


def update_from_broadcast(silo: Silo, message: Broadcast, W: FloatArray) -> Silo:
    """The silo with the scales, order and support of the broadcast; a new order frees all possible entries."""
    support = silo.possible if len(message.place) else silo.support
    return replace(
        silo,
        scale=message.scale if len(message.scale) else silo.scale,
        place=message.place if len(message.place) else silo.place,
        support=support & remaining_support(W, silo.prior) if message.relax else support,
    )


def fit_step(silo: Silo, message: Broadcast, W: FloatArray, free: NDArray[np.bool_]) -> tuple[FloatArray, FloatArray]:
    """β_p and B_p of a round of the fit without λ, whose duals start at zero."""
    beta = np.zeros_like(W)
    if len(silo.variances) and not len(message.place):
        before = silo.rho2 * implied_covariance(silo.W, silo.variances)
        beta = dual_step(silo.beta, silo.B - W, before, free)
    metric = message.rho2 * implied_covariance(W, message.variances)
    return beta, fit_silo(silo.problem.moments.S, beta, W, metric, free)


def evaluate_moves(problem: LinearProblem, W: FloatArray, place: NDArray[np.int64], moves: Moves) -> FloatArray:
    """The change of this silo's sum of conditional variances under each of `moves`, `[n_moves]`."""
    return variance_changes(problem.contemporaneous_moments(W), place, moves) if len(moves) else EMPTY


def sparse(server: Server) -> Sparse | None:
    """The positions at which this round's summands may be nonzero: the entries that a settled order leaves free.

    None before an order is settled, and in the first round of a new order or support. In that round, entries that are
    no longer free return to zero, so any entry may change.
    """
    phase = server.phase
    if not phase.ordered or phase.rounds == 0:
        return None
    change = consensus.with_loops(phase.free)
    packing = reply_packing(server.W.shape, len(phase.moves), measured=server.measured)
    return packing.sparse(change=change, gap=True, changes=True, variances=True)


def server_terms(server: Server, model: LinearModel, l1_at_server: bool, settings: RefinedSettings) -> Terms:
    """The terms of the server's step."""
    phase, factors = server.phase, model.penalty_factors(len(server.variables))
    no_l1, fits = phase.stage in (Stage.RELAXED, Stage.FITTED), phase.stage is Stage.FITTED
    send_threshold = 0.0 if fits else settings.send_threshold
    return Terms(
        rho2=server.rho2,
        l1=0.0 if no_l1 or not l1_at_server else server.l1,
        scale=server.scale,
        free=phase.free,
        prices=factors,
        acyclic=phase.ordered,
        send_threshold=send_threshold,
    )


def aggregate(
    server: Server, replies: Replies[Reply], model: LinearModel, l1_at_server: bool, settings: RefinedSettings
) -> Server:
    """The state with the new W: by the papers' step, without h under an order, or by the fit without λ."""
    phase = server.phase
    packing = reply_packing(server.W.shape, len(phase.moves), measured=server.measured)
    sent = packing.unpack(replies.total)
    if server.number == 0 and settings.scaled:
        server = replace(server, scale=sent["scale"] / server.silos)
    terms = server_terms(server, model, l1_at_server, settings)
    stepped = consensus.step(server, sent["change"], float(sent["gap"]), terms, W_STEPS, model.nearest)
    phase = replace(phase, rounds=phase.rounds + 1, judged=sent["changes"], variances=sent["variances"] / server.silos)
    if phase.stage is Stage.FITTED:
        phase = replace(phase, change=column_change(stepped.W - server.W, server.W, phase.variances))
    return replace(stepped, phase=phase)


def dual_update(server: Server, model: LinearModel, settings: RefinedSettings) -> Server:
    """The state with the duals, ρ₁ and ρ₂ updated, in the next phase."""
    phase = server.phase
    if phase.stage is Stage.FITTED:
        return after_fit(server, settings)
    updated = consensus.duals(server, server_terms(server, model, False, settings))
    if phase.ordered:
        updated = replace(updated, rho2=min(server.rho2 * RHO2_TIGHTENING, server.full_rho2))
    else:
        rho2 = server.rho2 * settings.rho2_growth
        updated = replace(updated, rho1=server.rho1 * settings.rho1_growth, rho2=rho2)
    if not settings.fix_order:
        return updated
    following = next_phase(
        phase,
        updated.W,
        updated.scale,
        h=updated.h,
        in_agreement=_phase_converged(updated, settings),
        rounds=updated.number,
        worth=updated.worth,
        last=updated.last,
        prior=updated.prior,
        settings=settings,
    )
    return _start_phase(replace(updated, phase=following), settings)


def after_fit(server: Server, settings: RefinedSettings) -> Server:
    """The state after a round of the fit; once the fit has converged, with the order implied by its model."""
    phase = server.phase
    if not _fit_converged(server, settings) or phase.readings >= settings.order_searches:
        return server
    least = len(server.variables) / server.rows * float(phase.variances.min())
    following, W = reread(phase, server.W_known, least, server.prior)
    return _start_phase(replace(server, W=W, phase=following), settings) if following.rounds == 0 else server


def _start_phase(server: Server, settings: RefinedSettings) -> Server:
    """The state with the ρ₂ of a new phase, and with zero duals for a fit.

    After a change of the free entries, a looser consensus converges sooner.
    """
    phase = server.phase
    if phase.rounds:
        return server
    if phase.stage is Stage.FITTED:
        rho = metric_weight(len(server.variables), server.rows / server.silos)
        return replace(server, rho2=rho, beta_sum=np.zeros_like(server.W))
    return replace(server, rho2=RHO2_FIXED_ORDER)


def converged(server: Server, settings: RefinedSettings) -> bool:
    """Whether the last phase has converged or, without settled orders, the papers' criterion is satisfied."""
    if not settings.fix_order:
        return consensus.converged(server, settings)
    if server.phase.stage is Stage.FITTED:
        return server.phase.rounds > 0 and _fit_converged(server, settings)
    return server.phase.stage is server.last and _phase_converged(server, settings)


def _fit_converged(server: Server, settings: RefinedSettings) -> bool:
    """Whether a fit has converged: the error after a round is about ρ times the change in that round."""
    return server.rho2 * server.phase.change < settings.tolerance


def _phase_converged(server: Server, settings: RefinedSettings) -> bool:
    """Whether this phase has reached consensus.

    Before a fit without λ the tolerance is larger, because the fit needs only the positions of the nonzero entries.
    """
    fit_follows = server.last is Stage.FITTED and server.phase.ordered
    looser = replace(settings, tolerance=LASSO_TOLERANCE_FACTOR * settings.tolerance) if fit_follows else settings
    return server.phase.rounds > UNINFORMATIVE_ROUNDS and consensus.consensus_reached(server, looser)
