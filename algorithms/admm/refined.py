"""Consensus ADMM with all that we add to the papers' loop: scaled penalties, a refined order, changes held back (ours).

Each addition sets the `Terms` of a round (`consensus.py`) and leaves the loop as it is:

- scaling: every penalty is measured in the variables' mean squares, which the silos send once;
- order refinement: phases in which an order is settled, improved on and fitted without λ (`order_refinement.py`,
  `fitting.py`);
- holding back: small changes of an entry are not sent.

What leaves a silo besides: its variables' mean squares, once, for moves that the server proposes, changes of a sum of
conditional variances, and at the end, some ten times at most, the mean squares of its residuals under W.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ..core.knowledge import Prior
from ..core.protocol import FederatedAlgorithm, Replies, Sparse
from ..core.schema import FloatArray, Schema
from ..statistics.moments import residual_variances
from . import consensus
from .consensus import FIRST_ROUNDS, Terms
from .fitting import column_change, dual_step, fitted, strength
from .messages import NO_ORDER, NOTHING, Moves, change_between
from .model_order import implied_covariance
from .order import free_entries
from .order_moves import variance_changes
from .order_refinement import TIGHTEN, Phase, Stage, first_phase, left_in, next_phase, reread
from .problem import LinearModel, LinearProblem, positive
from .refined_messages import Broadcast, Reply, reply_packing, summand
from .settings import RefinedSettings

# Weights fitted without λ are only as good as the noise √(2 ln d / n) in them; the fit is for data with less than this.
LITTLE_NOISE = 0.05
# Where a fit follows, the lasso before it stops at this many times the tolerance.
BEFORE_FIT = 3


@dataclass(frozen=True)
class Server(consensus.Server):
    """The server's state: the papers', what penalties are measured in, and the phase of the order."""

    rows: int
    """of all silos"""
    scale: FloatArray
    """what penalties are measured in, `[m]`; ones until the first replies"""
    phase: Phase
    last: Stage
    """the phase that the run ends with"""

    @property
    def measured(self) -> bool:
        """Whether the silos say in this round what W leaves of each variable."""
        return self.last is Stage.FITTED and self.phase.stage in (Stage.JUDGING, Stage.FITTED)

    @property
    def worth(self) -> float:
        """By how much a move must lower the silos' summed variances: d over a silo's mean rows, of the least variable.

        That is in units of the least mean square, for each silo.
        """
        d = len(self.variables)
        return d * self.silos / self.rows * self.silos * float(self.scale.min())


@dataclass(frozen=True)
class Silo(consensus.Silo):
    """A silo's private state."""

    problem: LinearProblem
    scale: FloatArray
    """what penalties are measured in, `[m]`: this silo's own mean squares until the federation's are known"""
    place: NDArray[np.int64]
    """each variable's place in the settled order; empty before"""
    support: NDArray[np.bool_]
    """entries that are not given up, `[m, d]`"""
    possible: NDArray[np.bool_]
    """entries that background knowledge allows, `[m, d]`"""
    variances: FloatArray
    """what the metric of the fit without λ was made of in the last round, with W; empty before"""


KEPT = (*consensus.KEPT, "scale", "place", "support", "variances")


def refined_admm(
    settings: RefinedSettings, model: LinearModel, *, l1_at_server: bool, loops: bool = False
) -> FederatedAlgorithm[Server, Silo, Broadcast, Reply]:
    """Return consensus ADMM with the additions of `settings`; see `consensus.consensus_admm` for the rest."""
    server_l1, silo_l1 = (settings.l1, 0.0) if l1_at_server else (0.0, settings.l1)
    return FederatedAlgorithm(
        open_silo=lambda table, schema, silo, rng: open_silo(
            model.problem(table, schema, silo), model, settings, schema.knowledge.prior(schema.variables)
        ),
        open_server=lambda schema: open_server(schema, model, settings),
        broadcast=lambda server: broadcast(server, settings),
        local_solve=lambda silo, message: local_solve(silo, message, model, silo_l1, loops, settings),
        aggregate=lambda server, replies: aggregate(server, replies, model, server_l1, settings),
        dual_update=lambda server: dual_update(server, model, settings),
        converged=lambda server: converged(server, settings),
        structure=lambda server: consensus.structure(server, model.to_adjacency(server.W), settings),
        server_type=Server,
        silo_type=Silo,
        broadcast_type=Broadcast,
        reply_type=Reply,
        max_rounds=settings.rounds,
        summand=summand,
        sparse=sparse,
        measures=lambda server: (
            consensus.measures(server, model.to_adjacency(server.W), settings) | {"phase": server.phase.number}
        ),
        cost=lambda message: int(message.cost),
        kept=KEPT,
    )


def open_silo(problem: LinearProblem, model: LinearModel, settings: RefinedSettings, prior: Prior) -> Silo:
    """Return a silo's state before round 1."""
    S, possible = problem.moments.S, model.possible(prior.possible)
    opened = consensus.open_silo(problem, model, settings, prior)
    scale = positive(np.diag(S)) if settings.scaled else np.ones(len(S))
    zero = opened.B
    return Silo(problem, 0, zero, zero, zero, opened.rho2, prior, scale, NO_ORDER, possible, possible, NOTHING)


def open_server(schema: Schema, model: LinearModel, settings: RefinedSettings) -> Server:
    """Return the server's state before round 1."""
    shape = consensus.shape_of(model, schema)
    plain, rows = consensus.open_server(schema, shape[0], settings), sum(schema.windows(model.lags).values())
    last, phase = last_stage(shape, rows, settings), first_phase(model.possible(plain.prior.possible))
    return Server(**vars(plain), rows=rows, scale=np.ones(shape[0]), phase=phase, last=last)


def last_stage(shape: tuple[int, int], rows: int, settings: RefinedSettings) -> Stage:
    """Return the phase that a run with parameters of this `shape` ends with.

    λ is taken off only where there are `rows` enough for that to let truth in, not chance.
    """
    m, d = shape
    noise = float(np.sqrt(2 * np.log(d) / rows))
    if not settings.relax or noise >= (settings.l1 if m > d else LITTLE_NOISE):
        return Stage.ORDERED
    return Stage.RELAXED if m > d else Stage.FITTED


def broadcast(server: Server, settings: RefinedSettings) -> Broadcast:
    """Return what all silos are told: the papers' message, and new scales, a new order, moves, whether λ is off."""
    phase = server.phase
    return Broadcast(
        **vars(consensus.change_of_w(server))
        | {
            "scale": server.scale if server.number == 1 and settings.scaled else NOTHING,
            "place": phase.place if phase.new_order else NO_ORDER,
            "moves": phase.moves,
            "relax": phase.stage is Stage.RELAXED or (phase.stage is Stage.FITTED and not phase.full),
        },
        measure=server.measured,
        variances=phase.variances if phase.stage is Stage.FITTED else NOTHING,
    )


def local_solve(
    silo: Silo, message: Broadcast, model: LinearModel, l1: float, loops: bool, settings: RefinedSettings
) -> tuple[Silo, Reply]:
    """Take in what the server sent, do the local step on these terms, and judge the moves proposed."""
    W = message.W.put(silo.W)
    heard = listened(silo, message, W)
    free = free_entries(heard.place, heard.support)
    terms = Terms(
        message.rho2,
        0.0 if message.relax else l1,
        heard.scale,
        consensus.with_loops(free) if loops else free,
        model.prices(W.shape[1]),
        hold=settings.hold,
    )
    fits = len(message.variances) > 0
    beta, B = fitted_step(silo, message, W, free) if fits else consensus.local_step(heard, W, terms)
    reply = Reply(
        B=change_between(np.zeros_like(B), B - silo.B),
        scale=heard.scale if settings.scaled and silo.rounds == 0 else NOTHING,
        gap=consensus.gap(silo, W, terms),
        changes=judged(silo.problem, W, heard.place, message.moves),
        variances=residual_variances(silo.problem.moments.S, W) if message.measure else NOTHING,
    )
    following = replace(heard, rounds=silo.rounds + 1, B=B, beta=beta, W=W, rho2=message.rho2)
    return replace(following, variances=message.variances), reply


def listened(silo: Silo, message: Broadcast, W: FloatArray) -> Silo:
    """Return the silo with the scales, the order and the support that it was told of; a new order gives up nothing."""
    support = silo.possible if len(message.place) else silo.support
    return replace(
        silo,
        scale=message.scale if len(message.scale) else silo.scale,
        place=message.place if len(message.place) else silo.place,
        support=support & left_in(W, silo.prior) if message.relax else support,
    )


def fitted_step(
    silo: Silo, message: Broadcast, W: FloatArray, free: NDArray[np.bool_]
) -> tuple[FloatArray, FloatArray]:
    """Return β_p and B_p of a round of the fit (`fitting.py`), whose duals begin at zero."""
    beta = np.zeros_like(W)
    if len(silo.variances) and not len(message.place):
        before = silo.rho2 * implied_covariance(silo.W, silo.variances)
        beta = dual_step(silo.beta, silo.B - W, before, free)
    metric = message.rho2 * implied_covariance(W, message.variances)
    return beta, fitted(silo.problem.moments.S, beta, W, metric, free)


def judged(problem: LinearProblem, W: FloatArray, place: NDArray[np.int64], moves: Moves) -> FloatArray:
    """Return the change of this silo's sum of conditional variances under each of `moves`, `[n_moves]`."""
    return variance_changes(problem.within(W), place, moves) if len(moves) else NOTHING


def sparse(server: Server) -> Sparse | None:
    """Return where this round's summands may differ from zero: once an order has settled, in what it leaves free.

    In the round that brings a new order or support, what is no longer free goes back to zero: that one is dense.
    """
    phase = server.phase
    if not phase.ordered or phase.rounds == 0:
        return None
    change = consensus.with_loops(phase.free)
    packing = reply_packing(server.W.shape, len(phase.moves), measured=server.measured)
    return packing.sparse(change=change, gap=True, changes=True, variances=True)


def server_terms(server: Server, model: LinearModel, l1: float, settings: RefinedSettings) -> Terms:
    """Return the terms of the server's step."""
    phase, prices = server.phase, model.prices(len(server.variables))
    without, fits = phase.stage in (Stage.RELAXED, Stage.FITTED), phase.stage is Stage.FITTED
    hold = 0.0 if fits else settings.hold
    return Terms(server.rho2, 0.0 if without else l1, server.scale, phase.free, prices, phase.ordered, hold)


def aggregate(
    server: Server, replies: Replies[Reply], model: LinearModel, l1: float, settings: RefinedSettings
) -> Server:
    """Return the state with the new W: the papers' step, under an order without h, or that of the fit without λ."""
    assert replies.total is not None
    phase = server.phase
    packing = reply_packing(server.W.shape, len(phase.moves), measured=server.measured)
    sent = packing.unpack(replies.total)
    if server.number == 0 and settings.scaled:
        server = replace(server, scale=sent["scale"] / server.silos)
    terms = server_terms(server, model, l1, settings)
    stepped = consensus.step(server, sent["change"], float(sent["gap"]), terms, settings.w_steps, model.nearest)
    phase = replace(phase, rounds=phase.rounds + 1, judged=sent["changes"], variances=sent["variances"] / server.silos)
    if phase.stage is Stage.FITTED:
        phase = replace(phase, change=column_change(stepped.W - server.W, server.W, phase.variances))
    return replace(stepped, phase=phase)


def dual_update(server: Server, model: LinearModel, settings: RefinedSettings) -> Server:
    """Return the state with the duals, ρ₁ and ρ₂ updated, in the phase that comes next."""
    phase = server.phase
    if phase.stage is Stage.FITTED:
        return after_fit(server, settings)
    updated = consensus.duals(server, server_terms(server, model, 0.0, settings))
    if phase.ordered:
        updated = replace(updated, rho2=min(server.rho2 * TIGHTEN, settings.rho2))
    else:
        rho2 = server.rho2 * settings.rho2_growth
        updated = replace(updated, rho1=server.rho1 * settings.rho1_growth, rho2=rho2)
    if not settings.settle:
        return updated
    following = next_phase(
        phase,
        updated.W,
        updated.scale,
        h=updated.h,
        in_agreement=_agreed(updated, settings),
        rounds=updated.number,
        worth=updated.worth,
        last=updated.last,
        prior=updated.prior,
        settings=settings,
    )
    return _begun(replace(updated, phase=following), settings)


def after_fit(server: Server, settings: RefinedSettings) -> Server:
    """Return the state after a round of the fit: once it is at rest, with the order that its model implies."""
    phase = server.phase
    if not _at_rest(server, settings) or phase.readings >= settings.turns:
        return server
    least = len(server.variables) / server.rows * float(phase.variances.min())
    following, W = reread(phase, server.W_known, least, server.prior)
    return _begun(replace(server, W=W, phase=following), settings) if following.rounds == 0 else server


def _begun(server: Server, settings: RefinedSettings) -> Server:
    """Return the state with the consensus as loose as a phase needs it that is about to begin, and no duals for a fit.

    When the free entries have changed, a looser consensus gets there sooner.
    """
    phase = server.phase
    if phase.rounds:
        return server
    if phase.stage is Stage.FITTED:
        rho = strength(len(server.variables), server.rows / server.silos)
        return replace(server, rho2=rho, beta_sum=np.zeros_like(server.W))
    return replace(server, rho2=settings.rho2_settled)


def converged(server: Server, settings: RefinedSettings) -> bool:
    """Return whether the last phase has come to rest, or, where no order settles, what the papers ask for."""
    if not settings.settle:
        return consensus.converged(server, settings)
    if server.phase.stage is Stage.FITTED:
        return server.phase.rounds > 0 and _at_rest(server, settings)
    return server.phase.stage is server.last and _agreed(server, settings)


def _at_rest(server: Server, settings: RefinedSettings) -> bool:
    """Return whether a fit is done: what a round leaves of the error is about ρ times what it took away."""
    return server.rho2 * server.phase.change < settings.tolerance


def _agreed(server: Server, settings: RefinedSettings) -> bool:
    """Return whether the consensus of this phase is reached: less exactly before a fit, which needs only its zeros."""
    fit_follows = server.last is Stage.FITTED and server.phase.ordered
    looser = replace(settings, tolerance=BEFORE_FIT * settings.tolerance) if fit_follows else settings
    return server.phase.rounds > FIRST_ROUNDS and consensus.agreed(server, looser)
