"""Synthetic mixed federated data: numbers and labels in one random DAG, in silos of unequal size and means.

The generator is our own, after the simulations of Lee & Hastie 2015 and of Andrews, Ramsey & Cooper 2018 (conditional
Gaussian mixtures).

A continuous variable is a linear function of its parents plus N(0, 1); a discrete variable follows a softmax of logits.
Every continuous parent enters in standard deviations, so that no logit saturates. There are three kinds of effects:

- "additive" (Lee & Hastie 2015): parents act independently of each other. For a continuous child, a continuous parent
  has one slope, and a discrete parent has an offset for each of its levels. For a discrete child, a continuous parent
  has a slope in every level's logit, and each level of a discrete parent adds to the logit of one level of the child.
- "slopes": effects are additive, but every configuration of the discrete parents multiplies each slope by another
  number from [.25, 1.75].
- "configurations" (conditional Gaussian, Andrews, Ramsey & Cooper 2018): in addition, every configuration has a
  separate intercept, so that a discrete parent may have no effect on average. A strict conditional Gaussian network has
  no discrete child of a continuous parent. A random DAG may have such a child; the slopes and intercepts of the child
  are then in logits.

The random streams of a seed: (0,) the model, (1, silo) its rows, (2, silo) its offsets.
"""

from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedbnsl.algorithms.core.schema import FloatArray
from fedbnsl.algorithms.core.settings import NonNegative
from fedbnsl.algorithms.errors import BadInput
from fedbnsl.algorithms.graphs.dag import topological_order
from fedbnsl.algorithms.graphs.structure import Structure

from ..defaults import EFFECTS, MIXED_LEVELS, SITE_MEANS, Effects
from ..federated import FederatedData, silo_names
from ..federated import mixed as mixed_schema
from .random_graphs import RandomGraphSettings, check_graph, random_dag, variable_names
from .sampling import numbered_stream

WEIGHTS = (0.5, 1.5)
"""range of absolute slopes, and of half the spread of a discrete parent's offsets, for continuous children"""
LOGITS = (1.0, 2.5)
"""range of the effects of parents on the logits of discrete children"""
CHANGE = (0.25, 1.75)
"""range of the factors by which configurations multiply slopes"""
PILOT_ROWS = 4000
"""number of rows from which location and scale of each variable are estimated, before the silos' rows are drawn"""


@dataclass(frozen=True)
class Mechanism:
    """The dependence of a variable on its parents, by configuration of its discrete parents, the last one fastest."""

    discrete: tuple[int, ...]
    continuous: tuple[int, ...]
    intercepts: FloatArray
    """`[n_configurations, k]`, where k is the number of levels of a discrete variable, and 1 for a continuous one"""
    slopes: FloatArray
    """`[n_configurations, n_continuous_parents, k]`"""


@dataclass(frozen=True)
class MixedModel:
    """Mechanisms and their topological order; by variable, number of levels (0 if continuous), location and scale."""

    order: tuple[int, ...]
    mechanisms: dict[int, Mechanism]
    levels: NDArray[np.int64]
    location: FloatArray
    scale: FloatArray


def random_mixed_model(
    dag: NDArray[np.bool_], levels: NDArray[np.int64], effects: Effects, rng: np.random.Generator
) -> MixedModel:
    """Draw a model on `dag` `[d, d]` for variables with these numbers of `levels` `[d]`, 0 for continuous variables."""
    d, order = len(dag), tuple(topological_order(dag))
    model = MixedModel(order, {}, levels, np.zeros(d), np.ones(d))
    pilot = np.empty((PILOT_ROWS, d))
    for j in order:
        model.mechanisms[j] = _random_mechanism(np.flatnonzero(dag[:, j]), j, levels, effects, rng)
        pilot[:, j] = _draw(model, j, pilot, rng)
        if not levels[j]:
            model.location[j], model.scale[j] = pilot[:, j].mean(), pilot[:, j].std()
    return model


def draw_rows(model: MixedModel, rows: int, rng: np.random.Generator) -> FloatArray:
    """Draw a table `[rows, d]` of numbers and of level codes."""
    table = np.empty((rows, len(model.levels)))
    for j in model.order:
        table[:, j] = _draw(model, j, table, rng)
    return table


def _draw(model: MixedModel, j: int, table: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Draw variable j for the rows of `table`, which has its parents."""
    mechanism = model.mechanisms[j]
    configuration = np.zeros(len(table), np.int64)
    for p in mechanism.discrete:
        configuration = configuration * model.levels[p] + table[:, p].astype(np.int64)
    parents = list(mechanism.continuous)
    values = (table[:, parents] - model.location[parents]) / model.scale[parents]
    predicted = mechanism.intercepts[configuration]
    predicted += np.einsum("np,npk->nk", values, mechanism.slopes[configuration])
    if not model.levels[j]:
        return np.asarray(predicted[:, 0] + rng.standard_normal(len(table)))
    return np.asarray((predicted + rng.gumbel(size=predicted.shape)).argmax(axis=1), np.float64)


def _random_mechanism(
    parents: NDArray[np.int64], j: int, levels: NDArray[np.int64], effects: Effects, rng: np.random.Generator
) -> Mechanism:
    discrete = tuple(int(p) for p in parents if levels[p])
    continuous = tuple(int(p) for p in parents if not levels[p])
    k, sizes = max(int(levels[j]), 1), [int(levels[p]) for p in discrete]
    slopes = np.stack([_slope(k, rng) for _ in continuous]) if continuous else np.empty((0, k))
    count = int(np.prod(sizes, dtype=np.int64))
    change = np.ones((count, len(continuous), 1))
    if effects != "additive":
        change = rng.uniform(*CHANGE, change.shape)
    intercepts = np.zeros((1, k))
    for size in [count] * (count > 1) if effects == "configurations" else sizes:
        intercepts = (intercepts[:, None] + _offsets(size, k, rng)).reshape(-1, k)
    return Mechanism(discrete, continuous, intercepts, slopes * change)


def _slope(k: int, rng: np.random.Generator) -> FloatArray:
    """Draw the slope of a continuous parent, `[k]`: one number, or evenly spaced numbers in random order for logits."""
    if k == 1:
        return np.asarray(rng.choice([-1.0, 1.0], 1) * rng.uniform(*WEIGHTS))
    return np.asarray(rng.permutation(np.linspace(-1, 1, k)) * rng.uniform(*LOGITS))


def _offsets(size: int, k: int, rng: np.random.Generator) -> FloatArray:
    """Draw the offsets of `size` levels or configurations, `[size, k]`.

    For a continuous child, the offsets are evenly spaced from −w to w, in random order. For a discrete child, each
    offset is w for the logit of one level; not all offsets have the same level.
    """
    if k == 1:
        return np.asarray(rng.permutation(np.linspace(-1, 1, size))[:, None] * rng.uniform(*WEIGHTS))
    favoured = rng.permutation(np.arange(size) % k)
    return np.asarray(np.eye(k)[rng.permutation(k)[favoured]] * rng.uniform(*LOGITS))


@dataclass(frozen=True)
class MixedSettings(RandomGraphSettings):
    """The settings of `mixed`, with `rows` rows of a silo on average; raises `BadInput` naming an invalid value."""

    effects: Effects = EFFECTS
    levels: tuple[int, int] = MIXED_LEVELS
    site_means: NonNegative = SITE_MEANS
    unequal: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        check_graph(self.variables, self.expected_edges, "ER")
        if not 2 <= self.levels[0] <= self.levels[1]:
            raise BadInput(f"levels: {self.levels[0]}-{self.levels[1]} is not a range of numbers from 2 on")

    @property
    def rows_by_silo(self) -> list[int]:
        """The number of rows of each silo: equal, or in the proportions 1 : 2 : ... : P; at least 2."""
        shares = np.arange(1, self.silos + 1) if self.unequal else np.ones(self.silos)
        ends = np.rint(self.silos * self.rows * np.concatenate([[0], shares.cumsum()]) / shares.sum())
        return [max(int(end - begin), 2) for begin, end in pairwise(ends)]


def mixed(
    variables: int,
    silos: int,
    rows: int,
    seed: int,
    edges: int | None = None,
    effects: Effects = EFFECTS,
    levels: tuple[int, int] = MIXED_LEVELS,
    site_means: float = SITE_MEANS,
    unequal: bool = True,
) -> FederatedData:
    """Draw silos of mixed rows from one model on a random DAG; half of the variables, drawn at random, are discrete.

    The module describes `effects`. `rows` is the mean number of rows of a silo; if the silos are `unequal`, their
    numbers of rows have the proportions 1 : 2 : ... : P. Each silo adds its own offset to each continuous column, as
    different instruments do. The offsets are drawn from N(0, site_means²), in standard deviations of the column. The
    dependence between columns is the same at all silos. The columns are in a random order. The model depends only on
    the seed, `variables`, `edges`, `effects` and `levels`, and each silo has its own random stream. Raises `BadInput`
    as `MixedSettings` does.
    """
    plan = MixedSettings(variables, silos, rows, seed, edges, effects, levels, site_means, unequal)
    rng = numbered_stream(seed, 0)
    dag = random_dag(variables, plan.expected_edges, rng)
    model = random_mixed_model(dag, _random_levels(plan, rng), plan.effects, rng)
    names = variable_names(variables)
    tables = {
        silo: _draw_silo(model, count, plan, number)
        for number, (silo, count) in enumerate(zip(silo_names(silos), plan.rows_by_silo, strict=True))
    }
    labels = {
        name: tuple(f"s{code}" for code in range(size)) for name, size in zip(names, model.levels, strict=True) if size
    }
    parameters: dict[str, Any] = {key: value for key, value in asdict(plan).items() if key != "seed"}
    about = {
        "kind": "mixed",
        "generator": "mixed",
        "source": "ours, after Lee & Hastie 2015 and Andrews, Ramsey & Cooper 2018",
        "parameters": parameters | {"edges": plan.expected_edges, "levels": list(levels)},
        "seed": seed,
    }
    truth = Structure(names, dag.astype(np.float64))
    return FederatedData(mixed_schema(tables, names, labels), tables, truth, {}, about)


def _random_levels(plan: MixedSettings, rng: np.random.Generator) -> NDArray[np.int64]:
    """Draw the number of levels of each variable, `[d]`; 0 for continuous variables, which are half, rounded up."""
    sizes = np.zeros(plan.variables, np.int64)
    chosen = rng.permutation(plan.variables)[: plan.variables // 2]
    sizes[chosen] = rng.integers(plan.levels[0], plan.levels[1] + 1, len(chosen))
    return sizes


def _draw_silo(model: MixedModel, rows: int, plan: MixedSettings, number: int) -> FloatArray:
    """Draw the table `[rows, d]` of a silo, with its own offsets in the continuous columns."""
    table = draw_rows(model, rows, numbered_stream(plan.seed, 1, number))
    means = plan.site_means * numbered_stream(plan.seed, 2, number).standard_normal(len(model.levels))
    return np.asarray(table + np.where(model.levels > 0, 0.0, means * model.scale))
