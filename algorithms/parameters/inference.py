"""Queries to a Bayesian network: probabilities and means given evidence, and after interventions.

An intervention do(X = x) removes the arrows into X and sets X to x (Pearl 2009, §3.2). Evidence X = x conditions on
X = x. The network is restricted to the variables in the query and their ancestors. Then the method depends on the
variables that are left:

- Labels with tables: variable elimination (`joint_table`). The answer is exact.
- Numbers with linear regressions: the conditional normal distribution. The answer is exact.
- All other networks, and tables whose elimination needs a table of more than `MAX_CELLS` cells: weighted samples
  (likelihood weighting; Fung, Chang 1990). The standard error comes from the effective number of samples (Kish 1965).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from itertools import product
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ..core.schema import FloatArray
from ..errors import BadInput, quoted
from ..graphs.dag import reachable
from .networks import Network, conditional_normal

MAX_CELLS = 1 << 24
"""maximum number of cells of a table in an exact elimination; if a table has more, samples are drawn instead"""
MAX_STATES = 10_000
"""maximum number of joint states of several targets that an answer lists"""
SAMPLES = 100_000
"""default number of weighted samples"""
MIN_EFFECTIVE = 100.0
"""minimum effective number of samples of an answer; with fewer, evidence is too unlikely under the model"""
QUANTILES = (0.05, 0.5, 0.95)

Value = float | str
Comparison = Literal["=", "<", ">", "within"]
"""how an event compares a variable with a value; "within" is for survival outcomes, which networks do not have"""


@dataclass(frozen=True)
class Event:
    """A statement on one variable: a label, or a number below or above a bound."""

    name: str
    comparison: Comparison
    value: Value


@dataclass(frozen=True)
class NetworkQuery:
    """The distribution of `targets`, or the probability that all `events` hold, `given` evidence and after `do`."""

    targets: tuple[str, ...] = ()
    events: tuple[Event, ...] = ()
    given: Mapping[str, Value] = field(default_factory=dict)
    do: Mapping[str, Value] = field(default_factory=dict)


@dataclass(frozen=True)
class NetworkAnswer:
    """A network's answer to a query."""

    probabilities: dict[tuple[str, ...], float]
    """the probabilities of the joint labels of the targets; for events, the only probability has the key ()"""
    mean: float | None = None
    sd: float | None = None
    quantiles: dict[float, float] = field(default_factory=dict)
    """the quantiles of a number"""
    exact: bool = True
    samples: float = math.inf
    """the effective number of samples; ∞ if the answer is exact"""

    def error(self, probability: float) -> float:
        """The standard error of a probability; 0 if the answer is exact."""
        return 0.0 if self.exact else math.sqrt(probability * (1 - probability) / self.samples)


def answer(
    network: Network, query: NetworkQuery, rng: np.random.Generator | None = None, samples: int = SAMPLES
) -> NetworkAnswer:
    """The answer of `network` to `query`; `rng` draws the samples if there is no exact answer.

    Raises `BadInput` for unknown names and labels, for evidence that is impossible under the model or too unlikely for
    `samples`, and for a question that has no answer, such as the probability of a single number.
    """
    _check(network, query)
    network = network.intervened(query.do)
    named = [*query.targets, *(event.name for event in query.events), *query.given]
    ancestors = reachable(network.dag.T, [network.index(name) for name in named])
    network = network.restricted(np.flatnonzero(ancestors).tolist())
    if network.linear:
        return _normal_answer(network, query)
    if network.discrete:
        try:
            return _exact_answer(network, query)
        except TableSizeError:
            pass
    return _sampled(network, query, rng or np.random.default_rng(0), samples)


def _check(network: Network, query: NetworkQuery) -> None:
    """Raise `BadInput` for a query without an answer in `network`."""
    names = [*query.targets, *(event.name for event in query.events)]
    if not names:
        raise BadInput("the query has no target: write P(X | ...) or P(X=label | ...)")
    for name in names:
        network.index(name)
        if name in query.given:
            raise BadInput(f"{quoted(name)} is both a target and evidence")
    for name in query.given:
        if name in query.do:
            raise BadInput(f"{quoted(name)} is both evidence and set by do(...)")
    for name, value in {**query.given, **query.do}.items():
        network.index(name)
        network.code(name, value)
    numbers = [name for name in query.targets if name not in network.levels]
    if numbers and len(query.targets) > 1:
        raise BadInput(f"{quoted(numbers[0])} is a number: ask for the distribution of one number at a time")
    for event in query.events:
        if event.name in network.levels and event.comparison != "=":
            raise BadInput(f"{quoted(event.name)} has labels: ask for {event.name}=LABEL")
        if event.name not in network.levels and event.comparison == "=":
            raise BadInput(f"{quoted(event.name)} is a number: a single value has no probability; ask for < or >")
        network.code(event.name, event.value)
    once = [*query.targets, *(event.name for event in query.events if event.name in network.levels)]
    for k, name in enumerate(once):
        if name in once[:k]:
            raise BadInput(f"{quoted(name)} is a target twice")
    states = math.prod(len(network.levels.get(name, (0,))) for name in query.targets)
    if states > MAX_STATES:
        raise BadInput(f"the targets have {states:,} joint states, more than {MAX_STATES:,}: ask for fewer")


def _normal_answer(network: Network, query: NetworkQuery) -> NetworkAnswer:
    """The answer of a linear Gaussian network."""
    from scipy.stats import multivariate_normal, norm  # imported late: only queries of numbers need it

    mean, S = network.joint_normal()
    cells = np.full(len(mean), np.nan)
    for name, value in query.given.items():
        cells[network.index(name)] = float(value)
    mean, S = conditional_normal(mean, S, cells)
    if query.targets:
        v = network.index(query.targets[0])
        sd = math.sqrt(max(float(S[v, v]), 0.0))
        quantiles = {q: float(mean[v] + sd * norm.ppf(q)) for q in QUANTILES}
        return NetworkAnswer({}, float(mean[v]), sd, quantiles)
    where = [network.index(event.name) for event in query.events]
    signs = np.array([1.0 if event.comparison == "<" else -1.0 for event in query.events])
    bounds = signs * np.array([float(event.value) for event in query.events])
    covariance = signs[:, None] * S[np.ix_(where, where)] * signs
    share = multivariate_normal.cdf(bounds, signs * mean[where], covariance, allow_singular=True)
    return NetworkAnswer({(): float(share)})


class TableSizeError(ValueError):
    """An elimination needs a table that is too large."""


@dataclass(frozen=True)
class _Factor:
    """A table over nodes, one axis each."""

    nodes: tuple[int, ...]
    table: FloatArray


def joint_table(
    network: Network, chosen: Sequence[str], given: Mapping[str, Value] | None = None, max_cells: int = MAX_CELLS
) -> FloatArray:
    """The joint probabilities of the `chosen` variables and `given` values, one axis per chosen variable; exact.

    The method is variable elimination over the nodes of a `discrete` network and their ancestors, with the smallest
    table first. Published tables are divided by their sums, which are 1 only up to rounding. Raises `TableSizeError` if
    a table would have more than `max_cells` cells, and `BadInput` for an unknown name or label.
    """
    wanted = tuple(network.index(name) for name in chosen)
    fixed = {network.index(name): int(network.code(name, value)) for name, value in (given or {}).items()}
    sizes = [len(network.levels[name]) for name in network.nodes]

    def product_over(factors: list[_Factor], scope: tuple[int, ...]) -> FloatArray:
        shape = tuple(sizes[v] for v in scope)
        if math.prod(shape) > max_cells:
            raise TableSizeError(f"a table of {math.prod(shape):,} cells would be needed, more than {max_cells:,}")

        def aligned(one: _Factor) -> FloatArray:
            order = sorted(range(len(one.nodes)), key=lambda axis: scope.index(one.nodes[axis]))
            return one.table.transpose(order).reshape([sizes[v] if v in one.nodes else 1 for v in scope])

        return reduce(np.multiply, map(aligned, factors), np.ones(shape))

    ancestors = np.flatnonzero(reachable(network.dag.T, (*wanted, *fixed))).tolist()
    factors = []
    for v in ancestors:
        table, family = network.tables[network.nodes[v]], (*network.parent_numbers[v], v)
        table = table / table.sum(axis=-1, keepdims=True)
        table = table[tuple(fixed.get(u, slice(None)) for u in family)]
        factors.append(_Factor(tuple(u for u in family if u not in fixed), table))
    near = {v: set().union(*(one.nodes for one in factors if v in one.nodes)) - {v} for v in ancestors}
    pending = {v for v in ancestors if v not in wanted and v not in fixed}
    while pending:
        v = min(pending, key=lambda v: (math.prod(sizes[u] for u in near[v]), v))
        scope = tuple(sorted(near[v]))
        summed = product_over([one for one in factors if v in one.nodes], (*scope, v)).sum(axis=-1)
        factors = [*(one for one in factors if v not in one.nodes), _Factor(scope, summed)]
        for u in scope:
            near[u] = (near[u] | near[v]) - {u, v}
        pending.remove(v)
    return product_over(factors, wanted)


def _exact_answer(network: Network, query: NetworkQuery) -> NetworkAnswer:
    """The answer of a discrete network by variable elimination; raises `TableSizeError` if a table is too large."""
    events = {event.name: event.value for event in query.events}
    found = joint_table(network, query.targets, {**query.given, **events}, MAX_CELLS)
    total = float(joint_table(network, (), query.given, MAX_CELLS)) if query.events else found.sum()
    if not total > 0:
        raise BadInput(f"the evidence {_as_text(query.given)} has probability 0 under the model")
    if query.events:
        return NetworkAnswer({(): float(found) / total})
    labels = product(*(network.levels[name] for name in query.targets))
    return NetworkAnswer(dict(zip(labels, (found / total).ravel().tolist(), strict=True)))


def _sampled(network: Network, query: NetworkQuery, rng: np.random.Generator, samples: int) -> NetworkAnswer:
    """The answer from weighted samples."""
    table, weights = network.sample(samples, rng, query.given)
    if not weights.sum() > 0 or not np.isfinite(weights).all():
        raise BadInput(f"the evidence {_as_text(query.given)} has probability 0 under the model")
    share = weights / weights.sum()
    effective = float(1 / (share**2).sum())
    if effective < MIN_EFFECTIVE:
        raise BadInput(
            f"the evidence {_as_text(query.given)} is too unlikely under the model: {samples:,} samples count as "
            f"{effective:.0f}; draw more, or give less evidence"
        )
    columns = [table[:, network.index(name)] for name in query.targets]
    if query.events:
        holds = np.logical_and.reduce([_holds(network, event, table) for event in query.events])
        return NetworkAnswer({(): float(share[holds].sum())}, exact=False, samples=effective)
    if query.targets[0] not in network.levels:
        return _summary(columns[0], share, effective)
    sizes = [len(network.levels[name]) for name in query.targets]
    codes = np.ravel_multi_index(tuple(column.astype(np.int64) for column in columns), sizes)
    shares = np.bincount(codes, share, math.prod(sizes))
    labels = product(*(network.levels[name] for name in query.targets))
    return NetworkAnswer(dict(zip(labels, shares.tolist(), strict=True)), exact=False, samples=effective)


def _summary(values: FloatArray, share: FloatArray, effective: float) -> NetworkAnswer:
    """The mean, standard deviation and quantiles of `values` `[n]` that have the probabilities `share` `[n]`."""
    mean = float(share @ values)
    order = np.argsort(values)
    cumulative = np.cumsum(share[order])
    places = np.minimum(np.searchsorted(cumulative, QUANTILES), len(values) - 1)
    quantiles = dict(zip(QUANTILES, values[order][places].tolist(), strict=True))
    return NetworkAnswer(
        {}, mean, float(np.sqrt(share @ (values - mean) ** 2)), quantiles, exact=False, samples=effective
    )


def _holds(network: Network, event: Event, table: FloatArray) -> NDArray[np.bool_]:
    """Whether the event holds in each row of `table`."""
    column, bound = table[:, network.index(event.name)], network.code(event.name, event.value)
    if event.comparison == "=":
        return np.asarray(column == bound)
    return np.asarray(column < bound if event.comparison == "<" else column > bound)


def _as_text(given: Mapping[str, Value]) -> str:
    return ", ".join(f"{name}={value}" for name, value in given.items())
