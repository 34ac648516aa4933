"""What follows once h is small: the phases in which an order of the variables is settled and improved on (ours).

FREE      the papers' loop: h is driven towards zero with ρ₁ growing from a small start
ORDERED   the order of the variables is fixed; what is left is a convex lasso over the entries that respect it, so
edges lost on the way to acyclicity come back, and no cycle can be left
JUDGING   the consensus stands; the silos judge moves that would turn an edge (`order_moves.py`), and a better order
settles anew; they also say what W leaves of each variable
FITTED    no move is worth taking; what the lasso kept is fitted without λ in the metric of the model (`fitting.py`).
Where it kept much of what the order allows, it does not tell edges from the rest, and all that the order allows is
fitted. The model then implies an order (`model_order.py`): a better one begins another fit of all that it allows
RELAXED   the same for series, whose lagged variables have no model: what the lasso kept is fitted again without λ
"""

from dataclasses import dataclass, field, replace
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from ..core.knowledge import Prior
from ..core.schema import FloatArray
from ..statistics.moments import residual_variances
from ..statistics.top_down import top_down
from .consensus import FIRST_ROUNDS
from .messages import NO_MOVES, NO_ORDER, NOTHING, Moves
from .model_order import implied_covariance, least_squares
from .order import free_entries, settled_order
from .order_moves import agreeing, proposals, turned
from .settings import RefinedSettings

# Rounds left over for an order when the search for one would use them all up.
RESERVE = 15
# From a loose start after a change of the free entries, ρ₂ tightens by this factor a round, up to what it was before.
TIGHTEN = 1.2
# An order settles on edges at least this fraction of the threshold strong; weaker ones are noise.
WEAK = 1 / 3
# A lasso that keeps more than this share of what an order allows does not tell edges from the rest: the graph is dense.
DENSE = 1 / 2


class Stage(StrEnum):
    """Which phase a run is in."""

    FREE = "free"
    ORDERED = "ordered"
    JUDGING = "judging"
    FITTED = "fitted"
    RELAXED = "relaxed"


@dataclass(frozen=True)
class Phase:
    """Where a run stands."""

    stage: Stage
    support: NDArray[np.bool_]
    """entries that are not given up, `[m, d]`: all that are possible, until the lasso is relaxed"""
    possible: NDArray[np.bool_]
    """entries that background knowledge allows, `[m, d]`"""
    rounds: int = 0
    """finished since the free entries last changed"""
    place: NDArray[np.int64] = field(default_factory=lambda: NO_ORDER)
    """each variable's place in the order, `[d]`; empty before there is one"""
    moves: Moves = field(default_factory=lambda: NO_MOVES)
    """what the silos are judging"""
    judged: FloatArray = field(default_factory=lambda: NOTHING)
    """the silos' sum of variance changes under each of the moves"""
    turns: int = 0
    """how often moves have been judged; as often as the settings allow once none was worth taking"""
    variances: FloatArray = field(default_factory=lambda: NOTHING)
    """what the W last sent leaves of each variable, `[d]`, on average over the silos; empty before it is asked for"""
    change: float = np.inf
    """how far the last round of a fit moved W: `fitting.column_change`"""
    readings: int = 0
    """how often an order was read off the model"""

    @property
    def free(self) -> NDArray[np.bool_]:
        """The entries that may differ from zero, `[m, d]`."""
        return free_entries(self.place, self.support)

    @property
    def ordered(self) -> bool:
        """Whether an order keeps cycles out."""
        return self.stage is not Stage.FREE

    @property
    def new_order(self) -> bool:
        """Whether the silos have yet to hear of the order."""
        return self.rounds == 0 and (self.stage is Stage.ORDERED or (self.stage is Stage.FITTED and self.full))

    @property
    def full(self) -> bool:
        """Whether all that the order and background knowledge allow is free."""
        return np.array_equal(self.support, self.possible)

    @property
    def number(self) -> float:
        """The phase as a number to plot: 1 without an order, 2 with one, 3 without λ."""
        return {Stage.FREE: 1.0, Stage.FITTED: 3.0, Stage.RELAXED: 3.0}.get(self.stage, 2.0)


def first_phase(possible: NDArray[np.bool_]) -> Phase:
    """Return the phase in which a run begins whose parameters may differ from zero where `possible`, `[m, d]`."""
    return Phase(Stage.FREE, possible, possible)


def settled(phase: Phase, W: FloatArray, scale: FloatArray, threshold: float, prior: Prior) -> Phase:
    """Return the phase that begins with the order of the strongest edges within one time of `W` `[m, d]`."""
    within = np.abs(W[: W.shape[1]])
    strength = within * np.sqrt(scale / scale.min())[: len(within), None]
    strength = np.where(within > WEAK * threshold, strength, 0.0)
    return replace(phase, stage=Stage.ORDERED, place=settled_order(strength, prior.precedes), rounds=0)


def dense(phase: Phase, W: FloatArray) -> bool:
    """Say whether the lasso kept so much of what the order allows that it does not tell edges from the rest."""
    return bool((W != 0).sum() > DENSE * free_entries(phase.place, phase.possible)[: W.shape[1]].sum())


def after_judgement(phase: Phase, least: float, most_turns: int) -> Phase:
    """Return the phase with the moves taken that lower the sum of variances by more than `least`.

    If there is none, the order stands, and there is no further judgement.
    """
    place = turned(phase.place, phase.moves, phase.judged, least)
    ended = replace(phase, stage=Stage.ORDERED, moves=NO_MOVES, judged=NOTHING)
    if np.array_equal(place, phase.place):
        return replace(ended, turns=most_turns)
    return replace(ended, place=place, turns=phase.turns + 1, rounds=0)


def left_in(W: FloatArray, prior: Prior) -> NDArray[np.bool_]:
    """Return the entries `[m, d]` that a lasso kept in `W`, and those of required edges."""
    left: NDArray[np.bool_] = W != 0
    left[: W.shape[1]] |= prior.required
    return left


def relaxed(phase: Phase, W: FloatArray, prior: Prior) -> Phase:
    """Return the phase in which what is left in `W` is fitted without λ."""
    return replace(phase, stage=Stage.RELAXED, support=left_in(W, prior), rounds=0)


def fitting(phase: Phase, W: FloatArray, prior: Prior) -> Phase:
    """Return the phase in which what is left in `W`, or all if that is much, is fitted in the metric of the model."""
    support = phase.possible if dense(phase, W) else left_in(W, prior)
    return replace(phase, stage=Stage.FITTED, support=support, rounds=0, moves=NO_MOVES, judged=NOTHING)


def reread(phase: Phase, W: FloatArray, least: float, prior: Prior) -> tuple[Phase, FloatArray]:
    """Return the phase after the model of the fit, of the `W` last sent, was asked for its order, and W in that order.

    The order is taken if it lowers the sum of variances by more than `least`; else phase and W are as they were. All
    that it allows is then fitted, from the model's own weights: what the lasso kept was chosen for another order.
    """
    covariance = implied_covariance(W, phase.variances)
    place, _ = top_down(covariance, prior.precedes)
    weights = least_squares(covariance, covariance, free_entries(place, phase.possible))
    if not phase.variances.sum() - residual_variances(covariance, weights).sum() > least:
        return phase, W
    return replace(phase, place=place, support=phase.possible, rounds=0, readings=phase.readings + 1), weights


def next_phase(
    phase: Phase,
    W: FloatArray,
    scale: FloatArray,
    *,
    h: float,
    in_agreement: bool,
    rounds: int,
    worth: float,
    last: Stage,
    prior: Prior,
    settings: RefinedSettings,
) -> Phase:
    """Return the phase that the next round is in; `last` is the one that a run ends with: FITTED, RELAXED or ORDERED.

    `rounds` have finished in all; `worth` is by how much, in all silos together, a move must lower the variances.
    """
    few_left = rounds >= settings.rounds - RESERVE
    if phase.stage is Stage.FREE:
        ripe = h < settings.settle_h and phase.rounds > FIRST_ROUNDS
        return settled(phase, W, scale, settings.threshold, prior) if ripe or few_left else phase
    if phase.stage is Stage.JUDGING:
        judged = after_judgement(phase, worth, settings.turns)
        return fitting(judged, W, prior) if last is Stage.FITTED and judged.rounds else judged
    if not in_agreement or phase.stage in (Stage.FITTED, Stage.RELAXED):
        return phase
    over = phase.turns >= settings.turns or few_left or (last is Stage.FITTED and dense(phase, W))
    edges = np.abs(W[: W.shape[1]]) > WEAK * settings.threshold
    moves = NO_MOVES if over else agreeing(proposals(phase.place, edges), phase.place, prior.precedes)
    if len(moves) or last is Stage.FITTED:
        return replace(phase, stage=Stage.JUDGING, moves=moves)
    return relaxed(phase, W, prior) if last is Stage.RELAXED else phase
