"""The part of Fed-Hawkes at a silo: sums over its events for the families of a request."""

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core.protocol import Summand
from ..core.schema import FloatArray
from ..errors import BadInput
from .families import BoolArray
from .hawkes import CURVATURE, EVENT, design, family_sums, pooled_causes, scaled_time
from .topology import LINKS, MAX_HOPS, linked_design, reach_of


@dataclass(frozen=True, eq=False)
class Silo:
    """The events `[n, 5 + links]`, and for each of the `rates` the columns and compensators of each type's families."""

    table: FloatArray
    types: int
    events: int
    """the number of events of all silos"""
    rates: FloatArray = field(default_factory=lambda: np.empty(0))
    weights: FloatArray = field(default_factory=lambda: np.empty(0))
    designs: tuple[Any, ...] = ()


@dataclass(frozen=True, eq=False)
class Broadcast:
    """A request for the sums of families (fields as in `Pool`).

    Without `rates`, it is a request for the numbers of events and the observation time.
    """

    rates: FloatArray
    unit: float
    pooled: bool
    """whether columns are base rate, self-excitation, and excitation by all others"""
    target: NDArray[np.int64]
    rate: NDArray[np.int64]
    member: BoolArray
    trials: FloatArray
    weights: FloatArray = field(default_factory=lambda: np.empty(0))
    """the weight of a hop for each of the `rates`, if there are `hops`"""
    hops: int = 0


def local_solve(silo: Silo, request: Broadcast) -> tuple[Silo, Summand]:
    """The silo's sums for the families in `request`, or its numbers of events and time of observation.

    All are divided by the number of all silos' events.
    """
    codes = silo.table[:, EVENT].astype(np.int64)
    if not len(request.rates):
        counts = np.bincount(codes, minlength=silo.types).astype(np.float64)
        return silo, Summand(np.concatenate([counts / silo.events, scaled_time(silo.table, silo.events)]))
    _require_families(request, silo.types)
    asked = request.rates.tobytes() + request.weights.tobytes()
    if silo.rates.tobytes() + silo.weights.tobytes() != asked:
        designs = tuple(_designs(silo, place, request) for place in range(len(request.rates)))
        silo = replace(silo, rates=request.rates, weights=request.weights, designs=designs)
    sums = [
        family_sums(
            silo.designs[place][target][0],
            silo.designs[place][target][1],
            np.flatnonzero(member),
            theta[member],
            CURVATURE,
        )
        for target, place, member, trials in zip(
            request.target, request.rate, request.member, request.trials, strict=True
        )
        for theta in trials
    ]
    return silo, Summand(np.concatenate(sums) / silo.events)


def _require_families(request: Broadcast, types: int) -> None:
    """Raise `BadInput` unless `request` lists families of `types` event types at points with positive intensities.

    A coordinator may send any request. Without this check, compiled code could read outside its arrays, and a logarithm
    that fails at a point would reveal information about a single silo.
    """
    columns, n = 3 if request.pooled else 1 + types, len(request.target)
    shapes = request.target.shape == request.rate.shape == (n,) and request.member.shape == (n, columns)
    shapes = shapes and request.trials.ndim == 3 and request.trials.shape[::2] == (n, columns)
    valid = (
        shapes
        and _whole(request.target, types)
        and _whole(request.rate, len(request.rates))
        and request.member.dtype == np.bool_
        and bool(request.member[:, 0].all())
        and bool((np.isfinite(request.trials) & (request.trials >= 0)).all())
        and bool((request.trials[..., 0] > 0).all())
        and bool((np.isfinite(request.rates) & (request.rates > 0)).all())
        and 0 < request.unit < np.inf
        and (not request.hops or (0 < request.hops <= MAX_HOPS and request.weights.shape == request.rates.shape))
        and bool((np.isfinite(request.weights) & (request.weights >= 0)).all())
    )
    if not valid:
        raise BadInput("a request for event sequences does not list families of their types with positive base rates")


def _whole(numbers: NDArray[np.int64], limit: int) -> bool:
    """Whether all `numbers` are whole numbers from 0 to below `limit`."""
    return numbers.dtype.kind == "i" and bool(((numbers >= 0) & (numbers < limit)).all())


def _designs(silo: Silo, place: int, request: Broadcast) -> list[tuple[FloatArray, FloatArray]]:
    """For each type, the columns at its events `[n_i, C]` and their compensators `[C]`, for `request.rates[place]`."""
    decay = float(request.rates[place])
    if request.hops and request.weights[place] > 0 and silo.table.shape[1] > LINKS:
        reach = reach_of(silo.table, request.hops, float(request.weights[place]))
        whole = linked_design(silo.table, silo.types, decay, request.unit, reach)
    else:
        whole = design(silo.table, silo.types, decay, request.unit)
    codes = silo.table[:, EVENT].astype(np.int64)
    return [
        pooled_causes(whole, codes == target, target)
        if request.pooled
        else (whole.columns[codes == target], whole.compensators)
        for target in range(silo.types)
    ]
