"""The phases of a run that refines an order of the variables once h is small (our own method).

- FREE: the papers' loop; ρ₁, growing from a small start, drives h towards zero
- ORDERED: the order of the variables is fixed; what remains is a convex lasso over the entries that respect it, so
  edges that were lost on the way to acyclicity can return, and no cycle is possible
- JUDGING: the silos evaluate moves that would turn an edge (`orders.py`); a better order begins ORDERED again. They
  also send their mean squared residuals under W
- FITTED: no move improves the order enough; the entries selected by the lasso are fitted without λ in the metric of the
  model (`model_metric.py`). If the lasso selected many of the allowed entries, all of these are fitted. The model then
  implies an order: a better order starts another fit of all entries that it allows
- RELAXED: for series, whose lagged variables have no model, the entries selected by the lasso are fitted without λ

The model of a round implies an order, too (`reread`, after Chen, Drton & Wang 2019): a consensus W that respects an
order, and the variances v of the residuals under W, define a covariance Σ (`implied_covariance`). With all allowed
entries fitted, Σ equals the second moments of all rows, for any order. If errors have equal variances, Σ determines the
order, from the first variable on (`statistics/moments.py`). The silos send only weights and residual variances.
"""

from dataclasses import dataclass, field, replace
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from ..core.knowledge import Prior
from ..core.schema import FloatArray
from ..statistics.moments import residual_variances, top_down_order
from .consensus import UNINFORMATIVE_ROUNDS
from .model_metric import implied_covariance, least_squares
from .orders import NO_MOVES, NO_ORDER, Moves, compatible_moves, free_entries, proposals, settled_order, turned
from .settings import RefinedSettings

EMPTY: FloatArray = np.empty(0)


# Above this number of variables, the h below which an order is fixed grows in proportion to the number of variables,
# because h is a sum over the variables.
SETTLED_VARIABLES = 20
# Number of last rounds in which no moves are proposed. An order is fixed at the latest when these rounds begin.
RESERVED_ROUNDS = 15
# An order is determined by edges stronger than this fraction of the threshold; weaker edges are noise.
MIN_STRENGTH_SHARE = 1 / 3
# If a lasso selects more than this share of the entries that an order allows, the graph is dense.
DENSE_SHARE = 1 / 2


class Stage(StrEnum):
    """The phase that a run is in."""

    FREE = "free"
    ORDERED = "ordered"
    JUDGING = "judging"
    FITTED = "fitted"
    RELAXED = "relaxed"


@dataclass(frozen=True)
class Phase:
    """The state of a run's phase."""

    stage: Stage
    support: NDArray[np.bool_]
    """entries not yet excluded, `[m, d]`: all possible entries until the selected entries are fitted without λ"""
    possible: NDArray[np.bool_]
    """entries that background knowledge allows, `[m, d]`"""
    rounds: int = 0
    """rounds finished since the free entries last changed"""
    place: NDArray[np.int64] = field(default_factory=lambda: NO_ORDER)
    """each variable's place in the order, `[d]`; empty before there is one"""
    moves: Moves = field(default_factory=lambda: NO_MOVES)
    """the moves that the silos evaluate"""
    judged: FloatArray = field(default_factory=lambda: EMPTY)
    """the variance change under each move, summed over the silos"""
    searches: int = 0
    """number of evaluations of moves; set to the maximum of the settings once no move improves the order enough"""
    variances: FloatArray = field(default_factory=lambda: EMPTY)
    """mean squared residuals under the last sent W, `[d]`, averaged over the silos; empty before the first request"""
    change: float = np.inf
    """change of W in the last round of a fit (`column_change`)"""
    readings: int = 0
    """number of orders derived from the model"""

    @property
    def free(self) -> NDArray[np.bool_]:
        """The entries that may differ from zero, `[m, d]`."""
        return free_entries(self.place, self.support)

    @property
    def ordered(self) -> bool:
        """Whether an order excludes cycles."""
        return self.stage is not Stage.FREE

    @property
    def new_order(self) -> bool:
        """Whether the order is new to the silos."""
        return self.rounds == 0 and (self.stage is Stage.ORDERED or (self.stage is Stage.FITTED and self.full))

    @property
    def full(self) -> bool:
        """Whether all entries that the order and background knowledge allow are free."""
        return np.array_equal(self.support, self.possible)

    @property
    def number(self) -> float:
        """The phase as a number to plot: 1 without an order, 2 with one, 3 without λ."""
        return {Stage.FREE: 1.0, Stage.FITTED: 3.0, Stage.RELAXED: 3.0}.get(self.stage, 2.0)


def first_phase(possible: NDArray[np.bool_]) -> Phase:
    """The first phase of a run with `possible` nonzero parameters, `[m, d]`."""
    return Phase(Stage.FREE, possible, possible)


def settle_order(phase: Phase, W: FloatArray, scale: FloatArray, threshold: float, prior: Prior) -> Phase:
    """The phase that starts with the order of the strongest contemporaneous edges of `W` `[m, d]`."""
    within = np.abs(W[: W.shape[1]])
    strength = within * np.sqrt(scale / scale.min())[: len(within), None]
    strength = np.where(within > MIN_STRENGTH_SHARE * threshold, strength, 0.0)
    return replace(phase, stage=Stage.ORDERED, place=settled_order(strength, prior.precedence), rounds=0)


def is_dense(phase: Phase, W: FloatArray) -> bool:
    """Whether the lasso selected so many of the allowed entries that the graph is dense."""
    return bool((W != 0).sum() > DENSE_SHARE * free_entries(phase.place, phase.possible)[: W.shape[1]].sum())


def after_judgement(phase: Phase, least: float, max_searches: int) -> Phase:
    """The phase after the moves that lower the sum of variances by more than `least`.

    If there are none, the order is final.
    """
    place = turned(phase.place, phase.moves, phase.judged, least)
    ended = replace(phase, stage=Stage.ORDERED, moves=NO_MOVES, judged=EMPTY)
    if np.array_equal(place, phase.place):
        return replace(ended, searches=max_searches)
    return replace(ended, place=place, searches=phase.searches + 1, rounds=0)


def remaining_support(W: FloatArray, prior: Prior) -> NDArray[np.bool_]:
    """The nonzero entries `[m, d]` of `W`, and those of required edges."""
    left: NDArray[np.bool_] = W != 0
    left[: W.shape[1]] |= prior.required
    return left


def relax_lasso(phase: Phase, W: FloatArray, prior: Prior) -> Phase:
    """The phase in which the nonzero entries of `W` are fitted without λ."""
    return replace(phase, stage=Stage.RELAXED, support=remaining_support(W, prior), rounds=0)


def start_fit(phase: Phase, W: FloatArray, prior: Prior) -> Phase:
    """The phase that fits the nonzero entries of `W`, or all possible ones if dense, in the metric of the model."""
    support = phase.possible if is_dense(phase, W) else remaining_support(W, prior)
    return replace(phase, stage=Stage.FITTED, support=support, rounds=0, moves=NO_MOVES, judged=EMPTY)


def reread(phase: Phase, W: FloatArray, least: float, prior: Prior) -> tuple[Phase, FloatArray]:
    """The phase with the order implied by the model of the fit (of the `W` last sent), and W in that order.

    The new order is adopted if it lowers the sum of variances by more than `least`. If not, phase and W are unchanged.
    In an adopted order, all allowed entries are fitted, because the lasso selected entries for another order. The fit
    starts from the model's weights.
    """
    covariance = implied_covariance(W, phase.variances)
    place, _ = top_down_order(covariance, prior.precedence)
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
    """The phase of the next round; `last` is the phase that a run ends with: FITTED, RELAXED or ORDERED.

    `in_agreement` says whether the silos agree on W in this phase. `rounds` is the number of finished rounds. `worth`
    is the minimum decrease of the silos' summed variances for a move.
    """
    few_left = rounds >= settings.rounds - RESERVED_ROUNDS
    if phase.stage is Stage.FREE:
        small = settings.fix_order_h * max(1.0, W.shape[1] / SETTLED_VARIABLES)
        ripe = h < small and phase.rounds > UNINFORMATIVE_ROUNDS
        return settle_order(phase, W, scale, settings.threshold, prior) if ripe or few_left else phase
    if phase.stage is Stage.JUDGING:
        judged = after_judgement(phase, worth, settings.order_searches)
        return start_fit(judged, W, prior) if last is Stage.FITTED and judged.rounds else judged
    if not in_agreement or phase.stage in (Stage.FITTED, Stage.RELAXED):
        return phase
    over = phase.searches >= settings.order_searches or few_left or (last is Stage.FITTED and is_dense(phase, W))
    edges = np.abs(W[: W.shape[1]]) > MIN_STRENGTH_SHARE * settings.threshold
    moves = NO_MOVES if over else compatible_moves(proposals(phase.place, edges), phase.place, prior.precedence)
    if len(moves) or last is Stage.FITTED:
        return replace(phase, stage=Stage.JUDGING, moves=moves)
    return relax_lasso(phase, W, prior) if last is Stage.RELAXED else phase
