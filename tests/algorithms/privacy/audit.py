"""Audit of a privacy claim: a lower bound of ε from the outputs of a mechanism on two neighbouring tables.

If a mechanism is (ε, δ)-DP, no event E has P(E) > e^ε·Q(E) + δ. The frequencies of an event in independent runs on each
table give Clopper-Pearson bounds of both probabilities. These give a lower bound of the mechanism's true ε with the
stated confidence. A bound above the claimed ε refutes the claim; a bound below it proves nothing.
"""

import math

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv

from fedbnsl.algorithms.errors import BadInput

_Event = tuple[np.ufunc, np.generic, int]
"""how outcomes compare with what value, and which table (0 or 1) counts as the first"""


def epsilon_lower_bound(
    hits: int, trials: int, false_hits: int, false_trials: int, delta: float, confidence: float = 0.95
) -> float:
    """Return a lower bound of ε if an event happened `hits` times on one table and `false_hits` times on the other.

    The event must have been fixed before these runs. Both the event and its complement are used: the greater of
    ln((p − δ)/q) and ln((1 − q − δ)/(1 − p)), p a lower bound of the first probability and q an upper bound of the
    second, each with half of what `confidence` leaves; 0 if neither is positive. Raises `BadInput` for counts that
    are not from 0 to the trials, no trials, a δ outside [0, 1) or a confidence outside (0, 1).
    """
    for name, count, of in (("hits", hits, trials), ("false_hits", false_hits, false_trials)):
        if not 0 <= count <= of or of < 1:
            raise BadInput(f"{name} is {count} of {of} trials: it must be from 0 to the trials, of which at least 1")
    if not 0 <= delta < 1:
        raise BadInput(f"delta is {delta}: it must be from 0 and below 1")
    if not 0 < confidence < 1:
        raise BadInput(f"confidence is {confidence}: it must be between 0 and 1")
    p, _ = clopper_pearson(hits, trials, confidence)
    _, q = clopper_pearson(false_hits, false_trials, confidence)
    return max(0.0, _log_ratio(p - delta, q), _log_ratio(1 - q - delta, 1 - p))


def clopper_pearson(hits: int, trials: int, confidence: float) -> tuple[float, float]:
    """Confidence bounds of a probability whose event happened in `hits` of `trials` trials."""
    tail = (1 - confidence) / 2
    least = float(betaincinv(hits, trials - hits + 1, tail)) if hits > 0 else 0.0
    most = float(betaincinv(hits + 1, trials - hits, 1 - tail)) if hits < trials else 1.0
    return least, most


def audit(
    outcomes: NDArray[np.generic], other_outcomes: NDArray[np.generic], delta: float, confidence: float = 0.95
) -> float:
    """A lower bound of ε from outcomes `[n_runs]` on two neighbouring tables; the event is chosen automatically.

    The first half of the outcomes chooses the event, "at least a threshold" or a single outcome, and the table to call
    the first, by the greatest bound. The returned bound uses only the second half.
    """
    half, other_half = len(outcomes) // 2, len(other_outcomes) // 2
    values = np.unique(np.concatenate([outcomes[:half], other_outcomes[:other_half]]))
    values = values[np.unique(np.linspace(0, len(values) - 1, 200).astype(np.int64))]
    events = [
        (compare, value, turned) for compare in (np.equal, np.greater_equal) for value in values for turned in (0, 1)
    ]

    def bound(event: _Event, runs: NDArray[np.generic], other_runs: NDArray[np.generic]) -> float:
        compare, value, turned = event
        happened = [np.asarray(compare(some, value)) for some in (runs, other_runs)]
        here, there = happened[turned], happened[1 - turned]
        return epsilon_lower_bound(int(here.sum()), len(here), int(there.sum()), len(there), delta, confidence)

    chosen = max(events, key=lambda event: bound(event, outcomes[:half], other_outcomes[:other_half]))
    return bound(chosen, outcomes[half:], other_outcomes[other_half:])


def _log_ratio(above: float, below: float) -> float:
    return math.log(above / below) if above > 0 and below > 0 else 0.0
