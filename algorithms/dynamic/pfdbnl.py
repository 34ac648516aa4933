"""PFDBNL: a dynamic network for every silo, close to a consensus of all silos (Chen, Ma & Yue 2025, Algorithm 2).

With B = [W; A₁; A₂; ...] (`fdbnl.py`), in every round each participating silo updates

    B_k ← argmin ℓ_k(B) + μ‖B − B̃_k‖² + αh(W) + ρ₁/2 h(W)² + λ‖B‖₁       (Eq. 10)
    B̃_k ← (2μB_k + ρ₂B − β_k) / (2μ + ρ₂)                                (Eq. 14, with missing brackets added)

and the server sets B to the mean of B̃_k + β_k/ρ₂ (Eq. 12). Then β_k ← β_k + ρ₂(B̃_k − B), α ← α + ρ₁·mean h(W_k), and
ρ₁, ρ₂ grow. The server draws the participants. It needs only sums: silos that do not participate add zeros.

`solve` minimises Eq. 10 by L-BFGS-B on B = B⁺ − B⁻ with both parts nonnegative, as NOTEARS does. λ may differ between
rows. ℓ_k is half the mean squared residual, from the second moments of the silo's windows. h measures cycles.

After the rounds the server requests each silo's own structure once: B_k of the last round or, by default, the result of
`personal_structure` for the silo's rows and the consensus. In this last exchange, the coordinator learns each silo's
structure, even with masks, as is the purpose of a personalised run. If `collect` is off, the structures stay at the
silos.

`personal_structure` (our own method) weights the consensus by its fit to the silo's rows. The silo learns an order and
selects parents (`moments/equal_variance.py`) from its own second moments plus κ times the second moments that the
consensus implies, as if they came from additional rows. With κ = 0 the silo learns from its own rows only; with a large
κ it adopts the consensus. Five-fold cross-validation on the silo's windows selects κ and the price of a contemporaneous
edge, which is low in dense networks. If the windows are few, it selects the price with κ = 0 first: together with a
large κ, the lowest price would win, as shrunk moments make many wrong edges harmless for prediction. Only the resulting
weights leave the silo.
"""

from dataclasses import dataclass, replace
from itertools import product

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from ..admm.acyclicity import acyclicity
from ..core.protocol import FederatedAlgorithm, Replies
from ..core.schema import FloatArray, Lags, Schema, check_lags, require_fixed_lags
from ..core.settings import Count, CountOrNone, Factor, NonNegative, Positive, Seed, Settings
from ..errors import BadInput
from ..graphs.dag import break_cycles
from ..graphs.structure import Structure, stacked
from ..moments.equal_variance import equal_variance
from ..moments.pooled import lagged_price
from ..published import presets_of
from ..secure.masks import FRACTION_BITS
from ..statistics.lagged import silo_windows
from ..statistics.moments import products, to_multiples
from ..statistics.packing import Packing, packing


@dataclass(frozen=True)
class Acyclic:
    """The price of cycles: αh + ρ₁/2 h²."""

    alpha: float
    rho1: float

    def value_and_gradient(self, W: FloatArray) -> tuple[float, FloatArray]:
        """The price of `W` `[d, d]`, and its gradient."""
        h, gradient = acyclicity(W)
        return self.alpha * h + 0.5 * self.rho1 * h * h, (self.alpha + self.rho1 * h) * gradient


def solve(
    S: FloatArray, near: FloatArray, start: FloatArray, mu: float, l1: FloatArray, acyclic: Acyclic, steps: int
) -> FloatArray:
    """B `[m, d]`, from `start`, by at most `steps` L-BFGS-B steps.

    `S` `[m, m]` are second moments of windows, `near` is B̃ `[m, d]`, and `l1` the λ of each row `[m]`.
    """
    m, d = near.shape
    rows, columns = np.nonzero(~np.eye(m, d, dtype=bool))
    price = l1[rows]

    def objective(z: FloatArray) -> tuple[float, FloatArray]:
        B = np.zeros((m, d))
        B[rows, columns] = z[: len(rows)] - z[len(rows) :]
        apart = B - near
        fitted = S @ B
        cyclic, slope = acyclic.value_and_gradient(B[:d])
        value = 0.5 * np.vdot(B, fitted) - np.vdot(B, S[:, :d]) + mu * np.vdot(apart, apart) + cyclic
        gradient = fitted - S[:, :d] + 2 * mu * apart
        gradient[:d] += slope
        flat = gradient[rows, columns]
        return float(value + price @ z[: len(rows)] + price @ z[len(rows) :]), np.concatenate(
            [flat + price, price - flat]
        )

    flat = start[rows, columns]
    found = minimize(
        objective,
        np.concatenate([np.maximum(flat, 0), np.maximum(-flat, 0)]),
        jac=True,
        method="L-BFGS-B",
        bounds=[(0, None)] * (2 * len(rows)),
        options={"maxiter": steps, "maxfun": 2 * steps},
    )
    B = np.zeros((m, d))
    B[rows, columns] = found.x[: len(rows)] - found.x[len(rows) :]
    return B


TRIED_KAPPAS = (0.0, 0.5, 2.0, 8.0)
"""candidates for κ"""
TRIED_PRICES = (0.1, 0.25, 0.5, 1.0)
"""candidates for the price of a contemporaneous edge, in units of the price of a lagged edge, `lagged_price`"""
MIN_WINDOWS_PER_VARIABLE = 5
"""with fewer windows per variable than this, the price of an edge is selected before κ"""
FOLDS = 5
PASSES = 5
"""maximum number of passes of moves that improve the order; during cross-validation there is one pass"""
FLOOR = 1e-6
"""share of the diagonal that is added to it, because moments are singular if there are few windows"""


def personal_structure(windows: FloatArray, consensus: FloatArray) -> FloatArray:
    """The silo's own weights `[m, d]` for its `windows` `[n_windows, m]` and the `consensus` `[m, d]`."""
    d, n = consensus.shape[1], len(windows)
    products = windows.T @ windows
    noise = float(((windows[:, :d] - windows @ consensus) ** 2).mean())
    folds = np.array_split(np.arange(n), min(FOLDS, n))
    reachable = np.linalg.cond(np.eye(d) - consensus[:d]) < 1 / FLOOR

    def least_loss(tried: list[tuple[float, float]]) -> tuple[float, float]:
        """The pair of κ and price, of those `tried`, that predicts the folds left out best."""
        losses = np.zeros(len(tried))
        for left_out in folds:
            rest = windows[left_out]
            S, rows = (products - rest.T @ rest) / max(n - len(rest), 1), max(n - len(rest), 2)
            implied = implied_moments(S, consensus, noise) if reachable else S
            for k, (trust, price) in enumerate(tried):
                weights = fit_weights((S + trust * implied) / (1 + trust), rows * (1 + trust), d, price, 1)
                losses[k] += ((rest[:, :d] - rest @ weights) ** 2).sum()
        return tried[int(np.argmin(losses))]

    prices: tuple[float, ...] = TRIED_PRICES
    if n < MIN_WINDOWS_PER_VARIABLE * d:
        prices = (least_loss([(0.0, price) for price in TRIED_PRICES])[1],)
    trust, price = least_loss(list(product(TRIED_KAPPAS if reachable else TRIED_KAPPAS[:1], prices)))
    S = products / n
    mixed = (S + trust * implied_moments(S, consensus, noise)) / (1 + trust) if trust else S
    return fit_weights(mixed, n * (1 + trust), d, price, PASSES)


def implied_moments(S: FloatArray, weights: FloatArray, noise: float) -> FloatArray:
    """The second moments `[m, m]` of windows with the past of `S` and a present that follows the model `weights`.

    x_t = (y_t A + u)(I − W)⁻¹ for the lagged y_t, with errors u of variance `noise`.
    """
    d = weights.shape[1]
    total = np.linalg.inv(np.eye(d) - weights[:d])
    past, effect = S[d:, d:], weights[d:] @ total
    crossed = past @ effect
    return np.block([[effect.T @ crossed + noise * total.T @ total, crossed.T], [crossed, past]])


def fit_weights(S: FloatArray, rows: float, d: int, price: float, passes: int) -> FloatArray:
    """The weights `[m, d]` learned from second moments `S` `[m, m]` of an effective sample size `rows`."""
    m = len(S)
    prices = lagged_price(m, rows) * np.repeat([price, 1.0], [d, m - d])
    return equal_variance(S + FLOOR * np.diag(np.diag(S)), prices, m, passes, d).weights


@dataclass(frozen=True)
class Pfdbnl(Settings):
    """Settings of `pfdbnl`; the defaults of the loop are the paper's."""

    lags: Lags = 1
    """p, how many steps back an edge may reach; auto: by BIC, in one exchange before the rounds"""
    mu: Positive = 0.1
    """μ, the weight of the distance between a silo's own network and the consensus"""
    l1: NonNegative = 0.1
    """λ_W, the price of the weight of an edge within one time step"""
    lagged_price: NonNegative = 1.0
    """λ_A / λ_W, the relative price of the weight of a lagged edge"""
    rho1: Positive = 1.0
    """weight of h² of each silo"""
    rho1_growth: Factor = 1.6
    """the factor of ρ₁ from round to round"""
    rho2: Positive = 1.0
    """weight of the consensus"""
    rho2_growth: Factor = 1.1
    """the factor of ρ₂ from round to round"""
    participants: CountOrNone = 0
    """j, number of silos in a round, drawn at random each time; 0: all"""
    participant_seed: Seed = 0
    """seed of the draws of participants"""
    local_steps: Count = 100
    """maximum number of L-BFGS-B steps of a silo per round"""
    rounds: Count = 40
    """maximum number of rounds before the silos' own structures are requested"""
    tolerance: Positive = 5e-3
    """the run has converged if B changes by less than this in a round, relative to its norm"""
    h_tolerance: Positive = 1e-4
    """mean of h(W_k) below which the run may have converged; a cycle of two edges of weight τ has h of about τ⁴"""
    threshold: NonNegative = 0.1
    """τ: edges of at most this absolute weight are dropped"""
    center: bool = True
    """subtract each silo's own levels: the means of its columns that differ significantly from zero"""
    refine: bool = True
    """whether a silo learns its own structure from its rows and the consensus, instead of using its last B_k"""
    collect: bool = True
    """request the silos' own structures"""


PRESETS = presets_of("pfdbnl", Pfdbnl)


@dataclass(frozen=True)
class Broadcast:
    """The message to all silos."""

    B: FloatArray
    """the consensus, `[m, d]`"""
    alpha: float
    rho1: float
    rho2: float
    taking_part: tuple[str, ...]
    last: bool
    """whether the silos' own structures are requested now"""


@dataclass(frozen=True)
class Silo:
    """A silo's private state."""

    name: str
    place: int
    """index among the sorted silos"""
    silos: int
    windows: FloatArray
    """`[n_windows, m]`"""
    S: FloatArray
    """second moments of the windows, `[m, m]`"""
    own: FloatArray
    """B_k, `[m, d]`"""
    near: FloatArray
    """B̃_k"""
    beta: FloatArray
    rho2: float
    """ρ₂ of the last round if the silo participated in it, else 0"""


PERSISTED_STATE = ("own", "near", "beta", "rho2")


@dataclass(frozen=True)
class Reply:
    """A silo's reply: in a round B̃_k + β_k/ρ₂ and h(W_k) if it participates, at the end its own weights."""

    mean: FloatArray
    """`[m, d]`; zeros if the silo does not participate"""
    h: float
    own: FloatArray
    """`[n_silos, m, d]`: its own weights at its index, zeros elsewhere; empty before the end"""


@dataclass(frozen=True)
class Server:
    """The server's state."""

    variables: tuple[str, ...]
    silos: tuple[str, ...]
    number: int
    """rounds finished"""
    B: FloatArray
    alpha: float
    rho1: float
    rho2: float
    h: float
    """mean h(W_k) of the last participants"""
    moved: float
    """change of B in the last round, relative to its norm"""
    last: bool
    """whether the rounds are over"""
    own: FloatArray
    """the silos' own weights, `[n_silos, m, d]`; empty before the last exchange"""


def build(settings: Pfdbnl) -> FederatedAlgorithm[Server, Silo, Broadcast, Reply]:
    """PFDBNL. `open_server` raises `BadInput` for series too short for the lags and too many participants."""
    return FederatedAlgorithm(
        open_silo=lambda table, schema, silo, rng: open_silo(table, schema, silo, settings),
        open_server=lambda schema: open_server(schema, settings),
        broadcast=lambda server: broadcast(server, settings),
        local_solve=lambda silo, message: local_solve(silo, message, settings),
        aggregate=lambda server, replies: aggregate(server, replies, settings),
        dual_update=lambda server: dual_update(server, settings),
        converged=lambda server: converged(server, settings),
        structure=lambda server: common_structure(server, settings),
        server_type=Server,
        broadcast_type=Broadcast,
        reply_type=Reply,
        max_rounds=settings.rounds + settings.collect,
        summand=summand,
        measures=measures,
        local_structures=lambda server: local_structures(server, settings),
        persisted_state=PERSISTED_STATE,
    )


def open_silo(table: FloatArray, schema: Schema, silo: str, settings: Pfdbnl) -> Silo:
    """A silo's state before round 1."""
    X = silo_windows(table, schema, silo, require_fixed_lags(settings.lags), center=settings.center)
    assert isinstance(X, np.ndarray)  # the registry entry does not allow reading in passes
    zero = np.zeros((X.shape[1], table.shape[1]))
    return Silo(silo, schema.silos.index(silo), len(schema.silos), X, products(X) / len(X), zero, zero, zero, 0.0)


def open_server(schema: Schema, settings: Pfdbnl) -> Server:
    """The server's state before round 1."""
    lags, silos, d = require_fixed_lags(settings.lags), schema.silos, len(schema.variables)
    check_lags(schema, lags)
    if settings.participants > len(silos):
        raise BadInput(f"parameter participants is {settings.participants}: there are {len(silos)} silos")
    zero, nothing = np.zeros(((lags + 1) * d, d)), np.empty((0, 0, 0))
    return Server(schema.variables, silos, 0, zero, 0.0, settings.rho1, settings.rho2, 0.0, np.inf, False, nothing)


def broadcast(server: Server, settings: Pfdbnl) -> Broadcast:
    """The broadcast; the participants depend only on the round and the seed of the draws."""
    return Broadcast(server.B, server.alpha, server.rho1, server.rho2, draw_participants(server, settings), server.last)


def draw_participants(server: Server, settings: Pfdbnl) -> tuple[str, ...]:
    """The participants of the next round."""
    if settings.participants == 0:
        return server.silos
    rng = np.random.default_rng((settings.participant_seed, server.number))
    return tuple(sorted(rng.choice(server.silos, settings.participants, replace=False).tolist()))


def local_solve(silo: Silo, message: Broadcast, settings: Pfdbnl) -> tuple[Silo, Reply]:
    """Apply the new consensus; then participate in the round, skip it, or send the silo's own structure."""
    updated = replace(silo, beta=silo.beta + silo.rho2 * (silo.near - message.B), rho2=0.0)
    nothing, nobody = np.zeros_like(silo.own), np.empty((0, 0, 0))
    if message.last:
        own = personal_structure(updated.windows, message.B) if settings.refine else updated.own
        place = np.zeros((silo.silos, *own.shape))
        place[silo.place] = to_multiples(own, FRACTION_BITS)
        return updated, Reply(nothing, 0.0, place)
    if silo.name not in message.taking_part:
        return updated, Reply(nothing, 0.0, nobody)
    rho2, mu = message.rho2, settings.mu
    own = solve(
        updated.S,
        updated.near,
        updated.own,
        mu,
        prices(updated.own, settings),
        Acyclic(message.alpha, message.rho1),
        settings.local_steps,
    )
    near = (2 * mu * own + rho2 * message.B - updated.beta) / (2 * mu + rho2)
    sent = to_multiples(near + updated.beta / rho2, FRACTION_BITS)
    h = to_multiples(np.array(acyclicity(own[: own.shape[1]])[0]), FRACTION_BITS)
    return replace(updated, own=own, near=near, rho2=rho2), Reply(sent, float(h), nobody)


def prices(weights: FloatArray, settings: Pfdbnl) -> FloatArray:
    """The λ of each row of `weights` `[m, d]`, `[m]`."""
    m, d = weights.shape
    return settings.l1 * np.repeat([1.0, settings.lagged_price], [d, m - d])


def reply_packing(shape: tuple[int, int], silos: int, *, last: bool) -> Packing:
    """The packing of a reply; the server needs only the sum over the silos."""
    return packing(mean=shape, h=(), own=(silos if last else 0, *shape))


def summand(reply: Reply) -> FloatArray:
    """`reply` as one vector for the sum."""
    last, shape = len(reply.own) > 0, reply.mean.shape
    own = reply.own if last else np.empty((0, *shape))
    return reply_packing(shape, len(reply.own), last=last).pack(mean=reply.mean, h=reply.h, own=own)


def aggregate(server: Server, replies: Replies[Reply], settings: Pfdbnl) -> Server:
    """The state with the new consensus (Eq. 12), or with the silos' own weights."""
    sent = reply_packing(server.B.shape, len(server.silos), last=server.last).unpack(replies.total)
    if server.last:
        return replace(server, own=sent["own"])
    taking_part = len(draw_participants(server, settings))
    B = sent["mean"] / taking_part
    moved = float(np.linalg.norm(B - server.B)) / max(float(np.linalg.norm(B)), 1e-12)
    return replace(server, number=server.number + 1, B=B, h=float(sent["h"]) / taking_part, moved=moved)


def dual_update(server: Server, settings: Pfdbnl) -> Server:
    """The state with α, ρ₁ and ρ₂ updated, and whether the rounds are over."""
    if server.last:
        return server
    return replace(
        server,
        alpha=server.alpha + server.rho1 * server.h,
        rho1=server.rho1 * settings.rho1_growth,
        rho2=server.rho2 * settings.rho2_growth,
        last=rounds_converged(server, settings) or server.number >= settings.rounds,
    )


def converged(server: Server, settings: Pfdbnl) -> bool:
    """Whether the rounds have converged and the silos' own structures, if requested, have arrived."""
    return rounds_converged(server, settings) and (len(server.own) > 0 or not settings.collect)


def rounds_converged(server: Server, settings: Pfdbnl) -> bool:
    """Whether the silos' W_k are acyclic and B has stopped changing, to the tolerances."""
    return server.h < settings.h_tolerance and server.moved < settings.tolerance


def measures(server: Server) -> dict[str, float]:
    """The measures of a round: mean h of the silos, the change of the consensus, ρ₁."""
    return {"h": server.h, "dual": server.moved if np.isfinite(server.moved) else 1.0, "rho1": server.rho1}


def common_structure(server: Server, settings: Pfdbnl) -> Structure:
    """The consensus structure without the weakest edge of each cycle; a mean of acyclic W_k can have cycles."""
    cyclic = threshold_structure(server.variables, server.B, settings)
    return replace(cyclic, weights=break_cycles(cyclic.weights)[0])


def threshold_structure(variables: tuple[str, ...], weights: FloatArray, settings: Pfdbnl) -> Structure:
    """The structure of `weights` `[m, d]` without edges of absolute weight at most τ."""
    edges: NDArray[np.float64] = np.where(np.abs(weights) > settings.threshold, weights, 0.0)
    return stacked(variables, edges, np.abs(weights))


def local_structures(server: Server, settings: Pfdbnl) -> dict[str, Structure]:
    """Each silo's own structure; none before the last exchange."""
    return {
        silo: threshold_structure(server.variables, own, settings)
        for silo, own in zip(server.silos, server.own, strict=False)
    }
