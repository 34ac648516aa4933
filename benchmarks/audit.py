"""Membership inference against whole private runs: what the best of five attacks gains, and what ε allows it to gain.

`python benchmarks/audit.py` runs all learners, 500 runs with a target record in silo a and 500 with another record in
its place, at ε = 1 and 8, and at ε = 10,000 as a control, which shows that the attacks work. The two records are the
worst case for the mechanisms: as far apart as clipping allows, and in different buckets or cells everywhere.

The adversary is the coordinator together with silo c. It sees every message of silo a; of a secure sum, it sees the sum
minus the summand of c. It knows all rows except the target. Its five attacks give each run a number:

- likelihood: the log-likelihood ratio of all released counts and second moments (for steps: of counts and spreads);
- nearest: how much nearer the released numbers are to those expected with the target, in the ℓ₂ norm;
- model: the log-likelihood ratio of the two records under the learned model;
- edge: the strength, or else the presence, of the edge between the first two variables;
- count: one noisy count, of the bucket or the cell of the target.

Half of the runs choose a threshold and a direction for each attack, and the best attack. The other half measure the
advantage, the difference of the probabilities of the event with and without the target, and give its Clopper-Pearson
lower bound at 95 %. ε and δ allow (e^ε − 1 + 2δ)/(e^ε + 1); the noise itself allows δ(0) of `tight.py`, which is less:
the total variation of the releases. Noise comes from seeds, so that the table can be repeated.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from measure import run_tables, show
from numpy.typing import NDArray
from scipy.special import betaincinv

from fedbnsl.algorithms import registry
from fedbnsl.algorithms.core.protocol import Algorithm, rounds
from fedbnsl.algorithms.core.schema import Schema
from fedbnsl.algorithms.dp_fed_sparse.plan import plan
from fedbnsl.algorithms.dp_fed_sparse.settings import DpFedSparse
from fedbnsl.algorithms.dp_fed_sparse.silo import SPREAD_CAP, clip_to_scale, residuals
from fedbnsl.algorithms.dp_fed_sparse.step_noise import shares_sensitivity, truncated_squares
from fedbnsl.algorithms.moments.summed import SummedMoments, clipping_ball
from fedbnsl.algorithms.privacy import gram, private_scales
from fedbnsl.algorithms.privacy.tight import Composition, tight_delta
from fedbnsl.algorithms.statistics.count_tables import count
from fedbnsl.tasks.transport.in_process import InProcessFederation

FloatArray = NDArray[np.float64]
ATTACKS = ("likelihood", "nearest", "model", "edge", "count")
DELTA, RUNS = 1e-3, 500
EPSILONS = (1.0, 8.0, 1e4)
"""the last one is the control"""
NAMES, SILOS, ROWS = ("x", "y", "z"), ("a", "b", "c"), 400


@dataclass(frozen=True)
class Case:
    """A learner with its two neighbouring tables of silo a."""

    name: str
    kind: str
    params: dict[str, Any]
    records: FloatArray
    """the target, and the record in its place, `[2, d]`"""
    by_silo: bool
    """whether the adversary sees the replies of silo a, or the sum of a and b"""

    def tables(self, record: int) -> dict[str, FloatArray]:
        """The tables of all silos with one of the `records`: an edge x → y, and z alone."""
        rng = np.random.default_rng(7)
        found = {}
        for silo in SILOS:
            rows = rng.normal(size=(ROWS, len(NAMES)))
            rows[:, 1] += 0.5 * rows[:, 0]
            found[silo] = (rows > 0).astype(np.float64) if self.kind == "discrete" else rows
        found["a"][0] = self.records[record]
        return found

    @property
    def schema(self) -> Schema:
        """The public schema."""
        levels = dict.fromkeys(NAMES, ("no", "yes")) if self.kind == "discrete" else {}
        return Schema(NAMES, dict.fromkeys(SILOS, ROWS), self.kind, levels)  # type: ignore[arg-type]

    def algorithm(self, epsilon: float, seed: int) -> Algorithm:
        """The learner; masks are left out, as they do not change a sum."""
        params = {"epsilon": epsilon, "delta": DELTA, "insecure_seed": seed, **self.params}
        return replace(registry.build(registry.specify(self.name, params)), needs_secure_sum=False)


SINGLE_EXCHANGE = {"depth": 0, "orientation": "sepset"}
"""this search makes a single exchange; if more were planned, a part of ε would not be spent"""
FAR = np.array([[3e5, 3e5, 3e5], [5e5, -5e5, 2e-4]])
CASES = {
    "dp-covariance": Case("dp-covariance", "continuous", {"scale_share": 0.3}, FAR, by_silo=True),
    "secure-sum": Case("secure-sum", "continuous", {"scale_share": 0.3}, FAR, by_silo=False),
    "dp-fed-sparse": Case("dp-fed-sparse", "continuous", {"rounds": 4, "smoothness_share": 0.4}, FAR, by_silo=True),
    "fed-pc": Case("fed-pc", "discrete", SINGLE_EXCHANGE, np.array([[0.0] * 3, [1.0] * 3]), by_silo=False),
}


@dataclass(frozen=True)
class Seen:
    """The adversary's view of one run: messages with the replies of silo a (or a and b), and the learned model."""

    messages: list[tuple[Any, FloatArray, Any]] = field(default_factory=list)
    """broadcast, released numbers, and the reply of silo a"""
    server: Any = None
    weights: FloatArray = field(default_factory=lambda: np.empty((0, 0)))


def whole_run(case: Case, record: int, epsilon: float, seed: int, tables: Mapping[str, FloatArray]) -> Seen:
    """Learn once and return what the adversary sees."""
    algorithm, replies = case.algorithm(epsilon, seed), []
    assert algorithm.summand is not None

    def tapped(silo: Any, message: Any) -> tuple[Any, Any]:
        state, reply = algorithm.local_solve(silo, message)
        replies.append((message, reply))
        return state, reply

    *_, last = rounds(replace(algorithm, local_solve=tapped), InProcessFederation(case.schema, tables))
    messages = []
    for k in range(0, len(replies), len(SILOS)):
        (message, own), (_, other), _ = replies[k : k + len(SILOS)]
        total = np.asarray(algorithm.summand(own), float)
        messages.append((message, total if case.by_silo else total + algorithm.summand(other), own))
    return Seen(messages, last.server, algorithm.structure(last.server).weights)


@dataclass(frozen=True)
class Release:
    """Released numbers, their noiseless values with each record, and the variance of their noise."""

    seen: FloatArray
    expected: FloatArray
    """`[2, n]`"""
    variance: FloatArray

    @property
    def likelihood(self) -> float:
        """The log-likelihood ratio, up to a constant."""
        one, other = self.expected
        return float(np.sum((one - other) * (self.seen - (one + other) / 2) / self.variance))

    @property
    def nearer(self) -> float:
        """How much nearer the release is to its expectation with the target than to that without."""
        one, other = self.expected
        return float(np.linalg.norm(self.seen - other) - np.linalg.norm(self.seen - one))


def released(case: Case, seen: Seen, epsilon: float, tables: list[dict[str, FloatArray]]) -> Iterator[Release]:
    """The releases of a run that are numbers with Gaussian noise."""
    settings = registry.specify(case.name, {"epsilon": epsilon, "delta": DELTA, **case.params}).settings
    rows = [np.vstack([one["a"]] if case.by_silo else [one["a"], one["b"]]) for one in tables]
    shares = 1 if case.by_silo else 2
    if isinstance(settings, SummedMoments):
        yield from _moments(case, seen, settings, rows, shares)
    elif isinstance(settings, DpFedSparse):
        yield from _steps(case, seen, settings, rows)
    else:
        algorithm = case.algorithm(epsilon, 0)
        state = algorithm.open_silo(tables[0]["a"], case.schema, "a", np.random.default_rng(0))
        for query, total, _ in seen.messages:
            expected = [count(one.T.astype(np.int16), np.array([2, 2, 2]), query.sets) for one in rows]
            variance = float(state.plan.variance(len(query.sets), len(total)))
            yield Release(total, np.array(expected, float), np.full(len(total), shares * variance))


def _moments(case: Case, seen: Seen, settings: SummedMoments, rows: list[FloatArray], shares: int) -> Iterator[Release]:
    algorithm = case.algorithm(settings.epsilon, 0)
    silo = algorithm.open_silo(rows[0][:ROWS], case.schema, "a", np.random.default_rng(0))
    for message, total, _ in seen.messages:
        if not len(message.scales):
            expected = np.array([private_scales.bucket_counts(one).ravel() for one in rows], float)
            yield Release(total, expected, np.full(len(total), shares * float(silo.plan.count_variance)))
            continue
        unit, R = clipping_ball(message.scales, silo.clip, mixed=False)
        expected = np.array([gram.integer_gram(one, unit, R, silo.plan.bits) for one in rows], float)
        i, j = np.triu_indices(len(NAMES))
        yield Release(total, expected, shares * float(silo.plan.gram_variance) * np.where(i == j, 1.0, 0.5))


def _steps(case: Case, seen: Seen, settings: DpFedSparse, rows: list[FloatArray]) -> Iterator[Release]:
    planned, d = plan(settings, case.schema), len(NAMES)
    for message, _, reply in seen.messages:
        if len(reply.sizes):
            expected = np.array([private_scales.bucket_counts(one).ravel() for one in rows], float)
            variance = private_scales.counts_sensitivity(d) ** 2 / (2 * planned.scales.rho)
            yield Release(reply.sizes, expected, np.full(len(reply.sizes), variance))
        else:
            W, caps = message.W.put(np.zeros((d, d))), SPREAD_CAP * message.spread
            moved = [residuals(clip_to_scale(one, message.scales), W).T for one in rows]
            expected = np.array([truncated_squares(one, caps) for one in moved])
            variance = shares_sensitivity(d, ROWS) ** 2 / (2 * planned.spread.rho)
            yield Release(reply.spread, expected, np.full(d, variance))


def attacks(case: Case, seen: Seen, releases: list[Release]) -> dict[str, float]:
    """The number that each attack gives a run; larger means that the target is likelier there."""
    first = releases[0]
    target = int(np.flatnonzero(first.expected[0] != first.expected[1])[0])
    here = first.expected[0][target] - first.expected[1][target]
    strength = np.abs(seen.weights[0, 1]) + np.abs(seen.weights[1, 0])
    return {
        "likelihood": math.fsum(one.likelihood for one in releases),
        "nearest": math.fsum(one.nearer for one in releases),
        "model": _model_ratio(case, seen, releases),
        "edge": float(strength),
        "count": float(np.sign(here) * first.seen[target]),
    }


def _model_ratio(case: Case, seen: Seen, releases: list[Release]) -> float:
    """The log-likelihood ratio of the records under the model: a table, Gaussian moments, or a linear model."""
    if case.kind == "discrete":
        cells = np.maximum(releases[0].seen[:4], 0.5)
        return float(np.log(cells[0] / cells[3]))
    if hasattr(seen.server, "S"):
        unit = case.records / seen.server.scales
        unit = unit / np.linalg.norm(unit, axis=1, keepdims=True)
        S = seen.server.S / np.outer(seen.server.scales, seen.server.scales)
        scores = -np.einsum("ki,ij,kj->k", unit, np.linalg.inv(S), unit) / 2
    else:
        unit = case.records / np.linalg.norm(case.records, axis=1, keepdims=True)
        scores = -((unit - unit @ seen.weights) ** 2).sum(axis=1) / 2
    return float(scores[0] - scores[1])


def outcomes(case: Case, epsilon: float, runs: int) -> tuple[dict[str, FloatArray], dict[str, FloatArray]]:
    """The number of every attack for `runs` runs with the target, and for as many with the other record."""
    tables, found = [case.tables(record) for record in (0, 1)], []
    for record in (0, 1):
        numbers = []
        for k in range(runs):
            seen = whole_run(case, record, epsilon, 2 * k + record, tables[record])
            numbers.append(attacks(case, seen, list(released(case, seen, epsilon, tables))))
        found.append({name: np.array([one[name] for one in numbers]) for name in ATTACKS})
    return found[0], found[1]


@dataclass(frozen=True)
class Measured:
    """The advantage of every attack on the second half of the runs, and the lower bound of the best of the first."""

    advantages: dict[str, float]
    best: str
    lower: float


def measure(here: Mapping[str, FloatArray], gone: Mapping[str, FloatArray]) -> Measured:
    """Choose thresholds and the best attack on one half of the runs, and measure on the other."""
    half = len(here["edge"]) // 2
    chosen, advantages, bounds = {}, {}, {}
    for name in ATTACKS:
        threshold, sign, chosen[name] = _threshold(here[name][:half], gone[name][:half])
        hits = int((sign * here[name][half:] >= sign * threshold).sum())
        false_hits = int((sign * gone[name][half:] >= sign * threshold).sum())
        trials = len(here[name]) - half
        advantages[name] = (hits - false_hits) / trials
        bounds[name] = max(0.0, _tail(hits, trials, lower=True) - _tail(false_hits, trials, lower=False))
    best = max(ATTACKS, key=lambda name: chosen[name])
    return Measured(advantages, best, bounds[best])


def _threshold(here: FloatArray, gone: FloatArray) -> tuple[float, int, float]:
    """The threshold and the direction of the greatest advantage, and this advantage."""
    values = np.unique(np.concatenate([here, gone]))
    found = [
        (float(value), sign, float((sign * here >= sign * value).mean() - (sign * gone >= sign * value).mean()))
        for sign in (1, -1)
        for value in values
    ]
    return max(found, key=lambda one: one[2])


def _tail(hits: int, trials: int, *, lower: bool) -> float:
    """A confidence bound of a probability at 97.5 % (Clopper and Pearson 1934)."""
    if lower:
        return float(betaincinv(hits, trials - hits + 1, 0.025)) if hits else 0.0
    return float(betaincinv(hits + 1, trials - hits, 0.975)) if hits < trials else 1.0


def allowed(epsilon: float) -> float:
    """The advantage that (ε, δ) allows."""
    return math.tanh(epsilon / 2) + 2 * DELTA / (1 + math.exp(epsilon)) if epsilon < 700 else 1.0


def allowed_by_noise(case: Case, epsilon: float) -> float:
    """The total variation of the releases of a run of this cost: δ at ε = 0, by tight accounting."""
    algorithm, settings = case.algorithm(epsilon, 0), registry.specify(case.name, {}).settings
    assert algorithm.private is not None
    if not isinstance(settings, DpFedSparse):
        mu = math.sqrt(2 * algorithm.private.promise(case.schema).cost.rho)
        return tight_delta(0.0, Composition(0, 0.0, mu)) if mu < 50 else 1.0
    settings = registry.specify(case.name, {"epsilon": epsilon, "delta": DELTA, **case.params}).settings
    planned = plan(settings, case.schema)
    count, each = settings.rounds * planned.steps, planned.noise
    mu = math.sqrt(2 * (planned.scales.rho + settings.rounds * planned.spread.rho + count * each.step.rho))
    eta = math.sqrt(8 * each.selection.rho)
    return tight_delta(0.0, Composition(count, eta, mu)) if mu < 50 and eta < 50 else 1.0


def row(case: Case, epsilon: float, runs: int) -> dict[str, Any]:
    """One line of the table."""
    found = measure(*outcomes(case, epsilon, runs))
    return {
        "learner": case.name,
        "ε": f"{epsilon:g}",
        **{name: f"{found.advantages[name]:.2f}" for name in ATTACKS},
        "best": found.best,
        "at least (95 %)": f"{found.lower:.2f}",
        "the noise allows": f"{allowed_by_noise(case, epsilon):.2f}",
        "ε allows": f"{allowed(epsilon):.2f}",
    }


def membership() -> None:
    """The table of all learners."""
    rows = [row(case, epsilon, RUNS) for epsilon in EPSILONS for case in CASES.values()]
    show("privacy-audit", rows, {})


if __name__ == "__main__":
    run_tables({"membership": membership}, __doc__, __file__)
