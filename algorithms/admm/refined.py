"""Consensus ADMM with all that we add to the papers' loop: scaled penalties, a refined order, changes held back (ours).

Each addition sets the `Terms` of a round (`consensus.py`) and leaves the loop as it is:

- scaling: every penalty is measured in the variables' mean squares, which the silos send once;
- order refinement: phases in which an order is settled, improved on and fitted without λ (`order_refinement.py`);
- holding back: small changes of an entry are not sent.

What leaves a silo besides: its variables' mean squares, once, and, for moves that the server proposes, changes of a sum
of conditional variances.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ..core.protocol import FederatedAlgorithm, Replies, Sparse
from ..core.schema import FloatArray, Schema
from . import consensus
from .consensus import FIRST_ROUNDS, Terms
from .messages import NO_ORDER, NOTHING, Broadcast, Moves, Reply, change_between, reply_packing, summand
from .order import free_entries
from .order_moves import variance_changes
from .order_refinement import TIGHTEN, Phase, Stage, first_phase, next_phase
from .problem import LinearModel, LinearProblem
from .settings import RefinedSettings


@dataclass(frozen=True)
class Server(consensus.Server):
    """The server's state: the papers', what penalties are measured in, and the phase of the order."""

    rows: int
    """of all silos"""
    scale: FloatArray
    """what penalties are measured in, `[m]`; ones until the first replies"""
    phase: Phase

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


KEPT = (*consensus.KEPT, "scale", "place", "support")


def refined_admm(
    settings: RefinedSettings, model: LinearModel, *, l1_at_server: bool, loops: bool = False
) -> FederatedAlgorithm[Server, Silo, Broadcast, Reply]:
    """Return consensus ADMM with the additions of `settings`; see `consensus.consensus_admm` for the rest."""
    server_l1, silo_l1 = (settings.l1, 0.0) if l1_at_server else (0.0, settings.l1)
    return FederatedAlgorithm(
        open_silo=lambda table, schema, silo, rng: open_silo(
            model.problem(table, schema, silo), consensus.shape_of(model, schema), settings
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


def open_silo(problem: LinearProblem, shape: tuple[int, int], settings: RefinedSettings) -> Silo:
    """Return a silo's state before round 1, with parameters of this `shape`."""
    S = problem.moments.S
    opened = consensus.open_silo(problem, shape, settings)
    scale = np.diag(S).copy() if settings.scaled else np.ones(len(S))
    return Silo(problem, 0, opened.B, opened.beta, opened.W, opened.rho2, scale, NO_ORDER, np.ones(shape, bool))


def open_server(schema: Schema, model: LinearModel, settings: RefinedSettings) -> Server:
    """Return the server's state before round 1."""
    shape = consensus.shape_of(model, schema)
    plain, rows = consensus.open_server(schema, shape[0], settings), sum(schema.windows(model.lags).values())
    return Server(**vars(plain), rows=rows, scale=np.ones(shape[0]), phase=first_phase(shape))


def broadcast(server: Server, settings: RefinedSettings) -> Broadcast:
    """Return what all silos are told: the papers' message, and new scales, a new order, moves, whether λ is off."""
    phase = server.phase
    return replace(
        consensus.change_of_w(server),
        scale=server.scale if server.number == 1 and settings.scaled else NOTHING,
        place=phase.place if phase.new_order else NO_ORDER,
        moves=phase.moves,
        relax=phase.stage is Stage.RELAXED,
    )


def local_solve(
    silo: Silo, message: Broadcast, model: LinearModel, l1: float, loops: bool, settings: RefinedSettings
) -> tuple[Silo, Reply]:
    """Take in what the server sent, do the papers' local step on these terms, and judge the moves proposed."""
    W = message.W.put(silo.W)
    heard = replace(
        silo,
        scale=message.scale if len(message.scale) else silo.scale,
        place=message.place if len(message.place) else silo.place,
        support=silo.support & (W != 0) if message.relax else silo.support,
    )
    free = free_entries(heard.place, heard.support)
    free = consensus.with_loops(free) if loops else free
    prices = model.prices(W.shape[1])
    terms = Terms(message.rho2, 0.0 if message.relax else l1, heard.scale, free, prices, hold=settings.hold)
    beta, B = consensus.local_step(silo, W, terms)
    reply = Reply(
        B=change_between(np.zeros_like(B), B - silo.B),
        scale=heard.scale if settings.scaled and silo.rounds == 0 else NOTHING,
        gap=consensus.gap(silo, W, terms),
        changes=judged(silo.problem, W, heard.place, message.moves),
    )
    return replace(heard, rounds=silo.rounds + 1, B=B, beta=beta, W=W, rho2=message.rho2), reply


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
    return reply_packing(server.W.shape, len(phase.moves)).sparse(change=change, gap=True, changes=True)


def server_terms(server: Server, model: LinearModel, l1: float, settings: RefinedSettings) -> Terms:
    """Return the terms of the server's step."""
    phase, prices = server.phase, model.prices(len(server.variables))
    l1 = 0.0 if phase.stage is Stage.RELAXED else l1
    return Terms(server.rho2, l1, server.scale, phase.free, prices, phase.ordered, settings.hold)


def aggregate(
    server: Server, replies: Replies[Reply], model: LinearModel, l1: float, settings: RefinedSettings
) -> Server:
    """Return the state with the new W: the papers' step, under an order without h."""
    assert replies.total is not None
    sent = reply_packing(server.W.shape, len(server.phase.moves)).unpack(replies.total)
    if server.number == 0 and settings.scaled:
        server = replace(server, scale=sent["scale"] / server.silos)
    terms = server_terms(server, model, l1, settings)
    stepped = consensus.step(server, sent["change"], float(sent["gap"]), terms, settings.w_steps, model.nearest)
    phase = replace(server.phase, rounds=server.phase.rounds + 1, judged=sent["changes"])
    return replace(stepped, phase=phase)


def dual_update(server: Server, model: LinearModel, settings: RefinedSettings) -> Server:
    """Return the state with the duals, ρ₁ and ρ₂ updated, in the phase that comes next."""
    phase = server.phase
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
        may_relax=may_relax(updated, settings),
        settings=settings,
    )
    if following.rounds == 0:  # the free entries have changed: a looser consensus gets there sooner
        updated = replace(updated, rho2=settings.rho2_settled)
    return replace(updated, phase=following)


def may_relax(server: Server, settings: RefinedSettings) -> bool:
    """Say whether λ is well above the noise √(2 ln d / n), so that taking it off lets truth in, not chance."""
    noise = float(np.sqrt(2 * np.log(len(server.variables)) / server.rows))
    return settings.relax and settings.l1 > noise


def converged(server: Server, settings: RefinedSettings) -> bool:
    """Return whether the last phase has come to rest, or, where no order settles, what the papers ask for."""
    if not settings.settle:
        return consensus.converged(server, settings)
    last = Stage.RELAXED if may_relax(server, settings) else Stage.ORDERED
    return server.phase.stage is last and _agreed(server, settings)


def _agreed(server: Server, settings: RefinedSettings) -> bool:
    return server.phase.rounds > FIRST_ROUNDS and consensus.agreed(server, settings)
