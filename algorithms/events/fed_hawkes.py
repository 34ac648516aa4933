"""Fed-Hawkes: which types of events excite which others, by the likelihood of a Hawkes process over all silos' devices.

The score of a graph over the event types is the Bayesian information criterion: the maximum log-likelihoods of its
families (`hawkes.py`) minus ½ ln(number of events) for each edge. Every type may excite itself. The graph is acyclic,
as in Cai et al. 2022 (THP: structural Hawkes processes with topology), unless `acyclic` is false. With `hops`, events
also excite events on linked devices of the silo (`topology.py`). Hill climbing adds, removes and turns edges.

1. One sum: the number of events of each type, and the time of observation. Their ratio τ is the unit of time.
2. The mean delay 1/δ. Families of three columns (base rate, the type itself, all others together) are fitted for delays
   from 4τ to τ/4096. A parabola through the best log-likelihood and its two neighbours has its maximum at δ. After the
   first search, δ is refined in the same way with the families of the graph, and the search goes on. The refinement
   also chooses the weight of a hop: 0 unless links gain more log-likelihood than the price of an edge.
3. The search. In each exchange, all families that are not yet fitted make one Newton step, at `trials` step lengths at
   once, because a step may be too long. Fitted families are not computed again. A move changes one or two families, so
   only families one move away from these are new. Moves that gain at least `batch` of the best gain are made together.
4. Newton steps for the final families alone, until they are exact.

What leaves a silo: the sums of step 1, and for each family its part of ℓ, gradient and Hessian at `trials` points. The
server needs their sums only. Cost of an exchange: O(n·k²) for n events and families of k columns; the excitations of
all events, O(n·d), are computed once for each δ.
"""

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Annotated

import numpy as np
from annotated_types import Ge, Gt, Le, Lt
from numpy.typing import NDArray

from ..core.protocol import FederatedAlgorithm, Replies, Summand
from ..core.schema import FloatArray, Schema
from ..core.settings import Count, Settings
from ..errors import pluralize
from ..graphs.dag import reachable
from ..graphs.structure import Structure
from ..privacy.disclosure_control import MIN_COUNT
from .families import EXACT, STEPS, TOLERANCE, BoolArray, Pool, new_pool, no_families, stepped
from .hawkes import MAX_SCALED, TIME_SCALES, Intensities, intensities_of
from .silo import Broadcast, Silo, local_solve
from .topology import MAX_HOPS

DELAYS = 4.0 ** np.arange(1, -7, -1)
"""mean delays from which the search for δ starts, in units of τ"""
STARTS = ((0.03, 1.0), (0.15, 0.8), (0.4, 0.6), (0.005, 1.0))
"""initial values for a new edge: its share of the effect's events, and a factor for the weights of the other edges"""
NEARBY = (0.7, 1.0, 1.4)
"""the multiples of δ that are compared once the graph is known"""
FIRST_HOP, HOPS_NEARBY = 0.25, (0.0, 0.0625, 1.0, 4.0)
"""the weight of a hop in the first search, and the weights that are compared with it once the graph is known"""
RELATIVE_TOLERANCE = 0.1
"""the search waits for a better fit while the error of a move's gain is above this share of the gain"""
DELAY_EXCHANGES, MAX_POLISHING = 5, 8
"""maximum number of exchanges for the first choice of δ in step 2, and for step 4"""


@dataclass(frozen=True)
class FedHawkes(Settings):
    """Settings of `fed-hawkes`."""

    delay: Annotated[float, Ge(0), Lt(np.inf)] = 0.0
    """mean delay between cause and effect, in the unit of the times; 0: estimated by maximum likelihood"""
    acyclic: bool = True
    """whether the graph has no cycles besides self-excitation"""
    penalty: Annotated[float, Ge(0), Lt(np.inf)] = 1.0
    """penalty of an edge, in multiples of the penalty of the Bayesian information criterion"""
    batch: Annotated[float, Gt(0), Le(1)] = 0.3
    """moves whose gain is at least this share of the best gain are made together; 1: one move at a time"""
    trials: Annotated[int, Ge(1), Le(len(STEPS))] = 4
    """points at which a family is evaluated in an exchange, 1 to 4"""
    hops: Annotated[int, Ge(0), Le(MAX_HOPS)] = 0
    """maximum number of links over which an event excites others, up to 10; 0: only events on the same device"""
    hop_weight: Annotated[float, Ge(0), Lt(np.inf)] = 0.0
    """factor of the effect for each further hop, on all devices at that distance together; 0: by maximum likelihood"""
    rounds: Count = 200
    """maximum number of exchanges"""


@dataclass(frozen=True, eq=False)
class Server:
    """The state of the search; `phase` is counts, delay, search, refine, polish or done."""

    variables: tuple[str, ...]
    events: int
    """number of events of all silos"""
    possible: BoolArray
    required: BoolArray
    phase: str
    counts: FloatArray
    """number of events by type, `[d]`"""
    time: float
    """total time of observation"""
    rates: FloatArray
    """the decay rates δ of the pool; in the search, only the chosen one"""
    adjacency: BoolArray
    pool: Pool
    strengths: FloatArray = field(default_factory=lambda: np.empty((0, 0)))
    """gains of the edges in log-likelihood, `[d, d]`; empty until the search is finished"""
    refined: bool = False
    """whether δ has been compared with nearby rates, given the graph"""
    exchanges: int = 0
    polishing: int = 0
    hops: int = 0
    weights: FloatArray = field(default_factory=lambda: np.empty(0))
    """the weight of a hop for each of the `rates`; empty without `hops`"""

    @property
    def unit(self) -> float:
        """τ, the mean time between two events of a device; 1 if the time of observation is 0 or not yet known."""
        return self.time / self.events if self.time > 0 else 1.0

    @cached_property
    def intensities(self) -> Intensities:
        """The process with the parameters of the graph's families; zeros before the search and while δ is refined."""
        d = len(self.variables)
        base, excitation = np.zeros(d), np.zeros((d, d))
        if self.phase in ("search", "polish", "done") and len(self.rates):
            places = self.pool.places
            for i in np.flatnonzero(self.counts):
                theta = self.pool.theta[places[int(i), _family(self, int(i)).tobytes()]]
                base[i], excitation[:, i] = theta[0] / self.unit, theta[1:]
        delay = 1 / float(self.rates[0]) if len(self.rates) == 1 else 0.0
        return intensities_of(self.variables, base, excitation, delay, self.counts, self.time)


def build(settings: FedHawkes) -> FederatedAlgorithm[Server, Silo, Broadcast, Summand]:
    """The algorithm with `settings`."""
    return FederatedAlgorithm(
        open_silo=lambda table, schema, name, rng: Silo(
            np.asarray(table), len(schema.variables), sum(schema.rows.values())
        ),
        open_server=lambda schema: open_server(schema, settings),
        broadcast=broadcast,
        local_solve=local_solve,
        aggregate=lambda server, replies: aggregate(server, replies, settings),
        converged=lambda server: server.phase == "done",
        structure=structure,
        server_type=Server,
        broadcast_type=Broadcast,
        reply_type=Summand,
        max_rounds=settings.rounds,
        summand=Summand.as_floats,
        measures=lambda server: {"edges": float(server.adjacency.sum()), "families": float(len(server.pool.target))},
        basis=basis,
    )


def open_server(schema: Schema, settings: FedHawkes) -> Server:
    """The state before the first exchange; its graph has the edges that background knowledge requires."""
    names, d = schema.variables, len(schema.variables)
    required = schema.knowledge.required_matrix(names)
    possible = schema.knowledge.possible(names) & ~np.eye(d, dtype=bool)
    pool = no_families(1 + d, settings.trials)
    events = sum(schema.rows.values())
    server = Server(names, events, possible, required, "counts", np.zeros(d), 0.0, np.empty(0), required.copy(), pool)
    return replace(server, hops=settings.hops)


def unfitted(server: Server) -> BoolArray:
    """Which families need another Newton step, `[m]`; in the search, only families that may still improve the graph."""
    pool = server.pool
    if server.phase == "polish":
        return pool.expected > EXACT
    if server.phase == "search" and np.isfinite(pool.ll).all():
        return (pool.expected > TOLERANCE) & _may_matter(server)
    return pool.expected > TOLERANCE


def _may_matter(server: Server) -> BoolArray:
    """Whether each family is in the graph or may become better; we assume gains of up to 4·`expected` + 1 in all."""
    pool = server.pool
    now = np.full(len(server.variables), -np.inf)
    current = np.array(
        [(member == _family(server, int(i))).all() for i, member in zip(pool.target, pool.member, strict=True)]
    )
    now[pool.target[current]] = pool.ll[current]
    return current | (pool.ll + 4 * pool.expected + 1 > now[pool.target])


def broadcast(server: Server) -> Broadcast:
    """The families that are not fitted yet."""
    pool = server.pool.chosen(unfitted(server))
    pooled = server.phase == "delay"
    families = (pool.target, pool.rate, pool.member, pool.trials)
    return Broadcast(server.rates, server.unit, pooled, *families, server.weights, server.hops)


def aggregate(server: Server, replies: Replies[Summand], settings: FedHawkes) -> Server:
    """The state after an exchange: one more Newton step of the requested families, and all moves that they decide."""
    server = replace(server, exchanges=server.exchanges + 1)
    if server.phase == "counts":
        return _counted(server, replies.total, settings)
    server = replace(server, pool=stepped(server.pool, unfitted(server), replies.total, server.counts))
    if server.phase == "delay":
        if unfitted(server).any() and server.exchanges <= DELAY_EXCHANGES:
            return server
        return _start_search(*_with_delay(server, len(server.rates)), settings)
    if server.phase == "refine":
        return server if unfitted(server).any() else _start_search(*_refined(server, settings), settings)
    if server.phase == "search":
        return _searched(server, settings)
    polishing = server.polishing + 1
    finished = polishing >= MAX_POLISHING or not unfitted(server).any()
    return replace(server, polishing=polishing, phase="done" if finished else "polish")


def _counted(server: Server, total: FloatArray, settings: FedHawkes) -> Server:
    """The state after the first exchange, with the families that determine δ, or those of the search."""
    d = len(server.variables)
    counts, times = np.rint(total[:d] * server.events), total[d:]
    scale = int(np.argmax(times < MAX_SCALED))
    server = replace(server, counts=counts, time=float(times[scale] / TIME_SCALES[scale] * server.events))
    if not server.time > 0:
        return replace(server, phase="done")
    first = settings.hop_weight or FIRST_HOP
    if settings.delay:
        weights = np.full(min(server.hops, 1), first)
        rates = np.array([1 / settings.delay])
        fixed = replace(server, rates=rates, weights=weights, refined=not _seeks_weight(settings))
        return _start_search(fixed, np.tile(0.25 * counts[:, None] / server.events, (1, 1 + d)), settings)
    rates = 1 / (DELAYS * server.unit)
    present = np.flatnonzero(counts)
    target: NDArray[np.int64]
    place: NDArray[np.int64]
    target, place = (grid.ravel() for grid in np.meshgrid(present, np.arange(len(rates)), indexing="ij"))
    share = counts[target] / server.events
    theta = np.column_stack([0.5 * share, np.full(len(share), 0.25), 0.25 * share])
    start = np.repeat(theta[:, None], settings.trials, axis=1)
    pool = new_pool(target, place, np.ones(theta.shape, bool), theta, start)
    weights = np.full(len(rates) if server.hops else 0, first)
    return replace(server, phase="delay", rates=rates, weights=weights, pool=pool)


def _seeks_weight(settings: FedHawkes) -> bool:
    """Whether the weight of a hop is to be chosen."""
    return settings.hops > 0 and not settings.hop_weight


def _refined(server: Server, settings: FedHawkes) -> tuple[Server, FloatArray]:
    """The state with the maximum-likelihood δ and weight of a hop, and the parameters from which the search starts.

    The weight is 0 unless another one has a log-likelihood that is higher by the price of an edge.
    """
    delays = len(server.rates) - len(HOPS_NEARBY) * _seeks_weight(settings)
    chosen, theta = _with_delay(server, delays)
    if _seeks_weight(settings):
        profile = np.bincount(server.pool.rate, server.pool.value, len(server.rates))
        tried = np.array([delays // 2, *range(delays + 1, len(profile))])
        best = tried[int(np.argmax(profile[tried]))]
        useful = profile[best] - profile[delays] > 0.5 * settings.penalty * np.log(server.events)
        chosen = replace(chosen, weights=server.weights[[best if useful else delays]])
    return chosen, theta


def _with_delay(server: Server, delays: int) -> tuple[Server, FloatArray]:
    """The state with the rate δ of maximum likelihood, and the parameters `[d, 1 + d]` from which the search starts.

    The first `delays` rates of the pool are compared.
    """
    pool, d = server.pool, len(server.variables)
    profile = np.bincount(pool.rate, pool.value, len(server.rates))[:delays]
    at, shift = int(np.argmax(profile)), 0.0
    if 0 < at < len(profile) - 1:
        low, middle, high = profile[at - 1 : at + 2]
        shift = float(0.5 * (low - high) / (low - 2 * middle + high))
    decay = server.rates[at] * np.exp(shift * np.log(server.rates[delays - 1] / server.rates[0]) / max(delays - 1, 1))
    theta, best = np.zeros((d, 1 + d)), pool.chosen(pool.rate == at)
    if server.phase == "refine":
        theta[best.target] = best.theta
    else:
        theta[best.target, 0], theta[best.target, 1 + best.target] = best.theta[:, 0], best.theta[:, 1]
    return replace(server, rates=np.array([decay]), weights=server.weights[:1]), theta


def _start_search(server: Server, theta: FloatArray, settings: FedHawkes) -> Server:
    """The state before a search: its pool has the graph's families, with parameters `theta`, and their neighbours."""
    d = len(server.variables)
    member = np.hstack([np.ones((d, 1), bool), server.adjacency.T | np.eye(d, dtype=bool)]) & _usable(server)
    present = np.flatnonzero(server.counts)
    share = server.counts / server.events
    least = np.hstack([0.1 * share[:, None], 0.01 * share[:, None] / np.maximum(share, 1 / server.events)])
    theta = np.where(member, np.maximum(theta, least), 0.0)[present]
    start = np.repeat(theta[:, None], settings.trials, axis=1)
    pool = new_pool(present, np.zeros_like(present), member[present], theta, start)
    return _with_neighbours(replace(server, phase="search", pool=pool), settings)


def _start_refinement(server: Server, settings: FedHawkes) -> Server:
    """The state in which the families of the graph are fitted for several rates δ and weights of a hop."""
    pool = _families_of_graph(server)
    m = len(pool.target)
    near = np.ones(1) if settings.delay else np.array(NEARBY)
    weights = np.repeat(server.weights, len(near))
    if _seeks_weight(settings):
        near = np.append(near, np.ones(len(HOPS_NEARBY)))
        weights = np.append(weights, HOPS_NEARBY)
    place = np.repeat(np.arange(len(near)), m)
    target, member, theta = (np.concatenate([one] * len(near)) for one in (pool.target, pool.member, pool.theta))
    again = new_pool(target, place, member, theta, np.repeat(theta[:, None], settings.trials, axis=1))
    rates = server.rates[0] * near
    return replace(server, phase="refine", refined=True, rates=rates, weights=weights, pool=again)


def _families_of_graph(server: Server) -> Pool:
    """The pool with the families of the graph alone."""
    places = server.pool.places
    kept = [places[int(i), _family(server, int(i)).tobytes()] for i in np.flatnonzero(server.counts)]
    return server.pool.chosen(np.isin(np.arange(len(server.pool.target)), kept))


def _usable(server: Server) -> BoolArray:
    """The columns of types with events, and the base rate, `[1 + d]`."""
    return np.append(True, server.counts > 0)


def _family(server: Server, target: int) -> BoolArray:
    """The columns of the family of a type in the graph, `[1 + d]`."""
    own = np.arange(len(server.variables)) == target
    return np.append(True, server.adjacency[:, target] | own) & _usable(server)


def _flips(server: Server, target: int) -> NDArray[np.int64]:
    """The types whose edge to `target` may be added or removed; an edge of a rare type would describe single events."""
    possible = np.where(server.adjacency[:, target], ~server.required[:, target], server.possible[:, target])
    many = np.minimum(server.counts, server.counts[target]) >= MIN_COUNT
    return np.flatnonzero(possible & many & (np.arange(len(many)) != target))


def _flipped(family: BoolArray, source: int) -> BoolArray:
    """The family with the edge from `source` added or removed."""
    changed = family.copy()
    changed[1 + source] = ~changed[1 + source]
    return changed


def _with_neighbours(server: Server, settings: FedHawkes) -> Server:
    """The state whose pool has only the families of the graph and the families that one move can reach."""
    pool, d = server.pool, len(server.variables)
    places, kept = pool.places, np.zeros(len(pool.target), bool)
    new: list[tuple[int, BoolArray, FloatArray, FloatArray]] = []
    share = server.counts / server.events
    starts, others = np.array(STARTS[: settings.trials]).T
    for i in np.flatnonzero(server.counts):
        target, family = int(i), _family(server, int(i))
        current = places[target, family.tobytes()]
        kept[current] = True
        for j in _flips(server, target):
            member = _flipped(family, int(j))
            known = places.get((target, member.tobytes()))
            if known is not None:
                kept[known] = True
                continue
            theta = np.where(member, pool.theta[current], 0.0)
            trials = np.repeat(theta[None], settings.trials, axis=0)
            if member[1 + j]:
                trials *= others[:, None]
                trials[:, 1 + j] = starts * share[target] / share[j]
            new.append((target, member, theta, trials))
    pool = pool.chosen(kept)
    if new:
        targets, members, thetas, points = zip(*new, strict=True)
        codes = np.array(targets, np.int64)
        added = new_pool(codes, np.zeros_like(codes), np.array(members), np.array(thetas), np.array(points))
        pool = pool.joined(added)
    assert pool.member.shape[1] == 1 + d
    return replace(server, pool=pool)


@dataclass(frozen=True)
class _Move:
    """A change of the edge source → target: added, removed or turned, with its gain and the error of the gain."""

    gain: float
    error: float
    source: int
    target: int
    turned: bool = False


def _moves(server: Server, settings: FedHawkes) -> list[_Move]:
    """All moves with a gain above `TOLERANCE`, the best first; an unfinished fit counts with its expected gain."""
    price = 0.5 * settings.penalty * np.log(server.events)
    pool, places = server.pool, server.pool.places
    gains: dict[tuple[int, int], tuple[float, float]] = {}
    for i in np.flatnonzero(server.counts):
        target, family = int(i), _family(server, int(i))
        now = places[target, family.tobytes()]
        for j in _flips(server, target):
            after = places[target, _flipped(family, int(j)).tobytes()]
            change = price if family[1 + j] else -price
            gain = pool.value[after] - pool.value[now] + change
            gains[int(j), target] = float(gain), float(pool.expected[after] + pool.expected[now])
    moves = [_Move(gain, error, source, target) for (source, target), (gain, error) in gains.items()]
    for (source, target), (gain, error) in gains.items():
        if server.adjacency[source, target] and (target, source) in gains and not server.adjacency[target, source]:
            back, back_error = gains[target, source]
            moves.append(_Move(gain + back, error + back_error, source, target, turned=True))
    return sorted((one for one in moves if one.gain > TOLERANCE), key=lambda one: (-one.gain, one.target, one.source))


def _searched(server: Server, settings: FedHawkes) -> Server:
    """The state after all moves that the fitted families decide; at the end, only the families of the graph remain."""
    if not np.isfinite(server.pool.ll).all():
        return server
    moves = _allowed(server, _moves(server, settings), settings)
    if not moves:
        if unfitted(server).any():
            return server
        return _polished(server) if server.refined else _start_refinement(server, settings)
    uncertain = any(one.error > max(TOLERANCE, RELATIVE_TOLERANCE * one.gain) for one in moves)
    if uncertain and unfitted(server).any():
        return server
    adjacency = server.adjacency.copy()
    for one in moves:
        adjacency[one.source, one.target] = not adjacency[one.source, one.target]
        if one.turned:
            adjacency[one.target, one.source] = True
    return _with_neighbours(replace(server, adjacency=adjacency), settings)


def _allowed(server: Server, moves: list[_Move], settings: FedHawkes) -> list[_Move]:
    """The moves to make together: at most one per family, with at least `batch` of the best gain (see `FedHawkes`)."""
    adjacency, touched = server.adjacency.copy(), set[int]()
    allowed: list[_Move] = []
    for one in moves:
        if allowed and one.gain < settings.batch * allowed[0].gain:
            break
        j, i = one.source, one.target
        if i in touched or (one.turned and j in touched):
            continue
        added = adjacency.copy()
        added[j, i] = not adjacency[j, i]
        if one.turned:
            added[i, j] = True
        cause, effect = (i, j) if one.turned else (j, i)
        if settings.acyclic and added[cause, effect] and reachable(added, (effect,))[cause]:
            continue
        adjacency = added
        touched |= {i, j} if one.turned else {i}
        allowed.append(one)
    return allowed


def _polished(server: Server) -> Server:
    """The state in which only the families of the graph are fitted further; it has the strengths of the edges."""
    server = replace(server, strengths=_strengths(server), phase="polish", pool=_families_of_graph(server))
    return server if unfitted(server).any() else replace(server, phase="done")


def _strengths(server: Server) -> FloatArray:
    """The gain of each edge that can be added or removed, given the other edges of the graph, `[d, d]`; 0 elsewhere."""
    d = len(server.variables)
    places, value, found = server.pool.places, server.pool.value, np.zeros((d, d))
    for i in np.flatnonzero(server.counts):
        family = _family(server, int(i))
        now = value[places[int(i), family.tobytes()]]
        for j in _flips(server, int(i)):
            found[j, i] = max(abs(now - value[places[int(i), _flipped(family, int(j)).tobytes()]]), 0.0)
    return found


def structure(server: Server) -> Structure:
    """The graph with the weights α of its edges; self-excitation is only in `intensities`."""
    weights = np.where(server.adjacency, server.intensities.excitation, 0.0)
    return Structure(server.variables, weights, scores=server.strengths if server.strengths.size else None)


def basis(server: Server) -> tuple[str, ...]:
    """Sentences on the directions of edges and the mean delay."""
    found = server.intensities
    if not found.delay:
        return ()
    delay = f"The mean delay between cause and effect is {found.delay:.3g} in the unit of the times."
    if not server.hops:
        return (
            "Time determines the directions: an event raises the rate of later events of the types that it affects, on "
            "the same device.",
            delay,
        )
    if not server.weights[0]:
        return (
            "Time determines the directions: an event raises the rate of later events of the types that it affects, on "
            "the same device. Links between devices do not raise the likelihood.",
            delay,
        )
    return (
        "Time determines the directions: an event raises the rate of later events of the types that it affects, on the "
        f"same device and, over up to {pluralize(server.hops, 'link')}, on others; each further link multiplies the "
        f"effect by {server.weights[0]:.3g}, on all devices at that distance together.",
        delay,
    )
