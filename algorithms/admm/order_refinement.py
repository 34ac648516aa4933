"""What follows once h is small: the phases in which an order of the variables is settled and improved on (ours).

FREE      the papers' loop: h is driven towards zero with ρ₁ growing from a small start
ORDERED   the order of the variables is fixed; what is left is a convex lasso over the entries that respect it, so
edges lost on the way to acyclicity come back, and no cycle can be left
JUDGING   the consensus stands; the silos judge moves that would turn an edge (`order_moves.py`), and a better order
settles anew
RELAXED   no move is worth taking; what the lasso kept is fitted again without λ
"""

from dataclasses import dataclass, field, replace
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from ..core.schema import FloatArray
from .consensus import FIRST_ROUNDS
from .messages import NO_MOVES, NO_ORDER, NOTHING, Moves
from .order import free_entries, settled_order
from .order_moves import proposals, turned
from .settings import RefinedSettings

# Rounds left over for an order when the search for one would use them all up.
RESERVE = 15
# From a loose start after a change of the free entries, ρ₂ tightens by this factor a round, up to what it was before.
TIGHTEN = 1.2
# An order settles on edges at least this fraction of the threshold strong; weaker ones are noise.
WEAK = 1 / 3


class Stage(StrEnum):
    """Which phase a run is in."""

    FREE = "free"
    ORDERED = "ordered"
    JUDGING = "judging"
    RELAXED = "relaxed"


@dataclass(frozen=True)
class Phase:
    """Where a run stands."""

    stage: Stage
    support: NDArray[np.bool_]
    """entries that are not given up, `[m, d]`: all, until the lasso is relaxed"""
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
        return self.stage is Stage.ORDERED and self.rounds == 0

    @property
    def number(self) -> float:
        """The phase as a number to plot: 1 without an order, 2 with one, 3 without λ."""
        return {Stage.FREE: 1.0, Stage.RELAXED: 3.0}.get(self.stage, 2.0)


def first_phase(shape: tuple[int, int]) -> Phase:
    """Return the phase in which a run with parameters of this `shape` begins."""
    return Phase(Stage.FREE, np.ones(shape, dtype=bool))


def settled(phase: Phase, W: FloatArray, scale: FloatArray, threshold: float) -> Phase:
    """Return the phase that begins with the order of the strongest edges within one time of `W` `[m, d]`."""
    within = np.abs(W[: W.shape[1]])
    strength = within * np.sqrt(scale / scale.min())[: len(within), None]
    strength = np.where(within > WEAK * threshold, strength, 0.0)
    return replace(phase, stage=Stage.ORDERED, place=settled_order(strength), rounds=0)


def judging(phase: Phase, W: FloatArray, threshold: float) -> Phase:
    """Return the phase in which moves that would turn edges of `W` are judged; the same where it has no edge."""
    moves = proposals(phase.place, np.abs(W[: W.shape[1]]) > WEAK * threshold)
    return replace(phase, stage=Stage.JUDGING, moves=moves) if len(moves) else phase


def after_judgement(phase: Phase, least: float, most_turns: int) -> Phase:
    """Return the phase with the moves taken that lower the sum of variances by more than `least`.

    If there is none, the order stands, and there is no further judgement.
    """
    place = turned(phase.place, phase.moves, phase.judged, least)
    ended = replace(phase, stage=Stage.ORDERED, moves=NO_MOVES, judged=NOTHING)
    if np.array_equal(place, phase.place):
        return replace(ended, turns=most_turns)
    return replace(ended, place=place, turns=phase.turns + 1, rounds=0)


def relaxed(phase: Phase, W: FloatArray) -> Phase:
    """Return the phase in which what is left in `W` is fitted without λ."""
    return replace(phase, stage=Stage.RELAXED, support=W != 0, rounds=0)


def next_phase(
    phase: Phase,
    W: FloatArray,
    scale: FloatArray,
    *,
    h: float,
    in_agreement: bool,
    rounds: int,
    worth: float,
    may_relax: bool,
    settings: RefinedSettings,
) -> Phase:
    """Return the phase that the next round is in.

    `rounds` have finished in all; `worth` is by how much, in all silos together, a move must lower the variances.
    """
    few_left = rounds >= settings.rounds - RESERVE
    if phase.stage is Stage.FREE:
        ripe = h < settings.settle_h and phase.rounds > FIRST_ROUNDS
        return settled(phase, W, scale, settings.threshold) if ripe or few_left else phase
    if phase.stage is Stage.JUDGING:
        return after_judgement(phase, worth, settings.turns)
    if not in_agreement:
        return phase
    if phase.turns < settings.turns and not few_left:
        return judging(phase, W, settings.threshold)
    if may_relax and phase.stage is not Stage.RELAXED:
        return relaxed(phase, W)
    return phase
