"""Synthetic mixed federated data: numbers and labels in one random DAG, in silos of unequal size and means (ours).

After the simulations of Lee & Hastie 2015 and of Andrews, Ramsey & Cooper 2018 (conditional Gaussian mixtures).
"""

from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from fedbnsl.algorithms.errors import BadInput
from fedbnsl.algorithms.graphs.structure import Structure

from ..defaults import EFFECTS, MIXED_LEVELS, SITE_MEANS, Effects
from ..federated import FederatedData, silo_names
from ..federated import mixed as mixed_schema
from .draw import check_counts
from .linear import check_graph, most_edges, random_dag, variable_names
from .mixed_model import FloatArray, MixedModel, draw_rows, random_mixed_model


@dataclass(frozen=True)
class MixedSettings:
    """What to draw: `silos` tables of `rows` rows on average, over a DAG with `edges` expected edges (None: d).

    Raises `BadInput` for a value that makes no sense, naming it.
    """

    variables: int
    silos: int
    rows: int
    seed: int
    edges: int | None = None
    effects: Effects = EFFECTS
    levels: tuple[int, int] = MIXED_LEVELS
    site_means: float = SITE_MEANS
    unequal: bool = True

    def __post_init__(self) -> None:
        """Refuse what cannot be drawn."""
        check_counts(self.silos, self.rows, self.seed)
        check_graph(self.variables, self.expected_edges, "ER")
        if self.effects not in get_args(Effects):
            raise BadInput(f"effects: {self.effects!r} is not one of {', '.join(get_args(Effects))}")
        if not 2 <= self.levels[0] <= self.levels[1]:
            raise BadInput(f"levels: {self.levels[0]}-{self.levels[1]} is not a range of numbers from 2 on")
        if not 0 <= self.site_means < np.inf:
            raise BadInput(f"site_means: {self.site_means} is not a finite number ≥ 0")

    @property
    def expected_edges(self) -> int:
        """The expected number of edges; by default as many as variables, or as many as there can be if that is less."""
        return min(self.variables, most_edges(self.variables)) if self.edges is None else self.edges

    @property
    def rows_of(self) -> list[int]:
        """The rows of each silo: alike, or in the proportions 1 : 2 : ... : P; at least 2."""
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
    """Draw silos of mixed rows from one model on a random DAG, half of whose variables, drawn at random, are discrete.

    `effects` are those of `mixed_model.py`. `rows` is the mean over the silos, which have 1 : 2 : ... : P of them where
    they are `unequal`. Each silo's continuous columns stand off by a mean of their own, from N(0, site_means²) in
    standard deviations of the column, as where instruments differ: what rows say of each other is the same everywhere.
    The columns are in a random order. The model depends on the seed, `variables`, `edges`, `effects` and `levels`
    alone, and each silo has a random stream of its own. Raises `BadInput` as `MixedSettings` does.
    """
    plan = MixedSettings(variables, silos, rows, seed, edges, effects, levels, site_means, unequal)
    rng = _stream(seed, 0)
    dag = random_dag(variables, plan.expected_edges, rng)
    model = random_mixed_model(dag, _sizes(plan, rng), plan.effects, rng)
    names = variable_names(variables)
    tables = {
        silo: _silo(model, count, plan, number)
        for number, (silo, count) in enumerate(zip(silo_names(silos), plan.rows_of, strict=True))
    }
    labels = {
        name: tuple(f"s{code}" for code in range(size)) for name, size in zip(names, model.levels, strict=True) if size
    }
    asked: dict[str, Any] = {key: value for key, value in asdict(plan).items() if key != "seed"}
    about = {
        "kind": "mixed",
        "generator": "mixed",
        "source": "ours, after Lee & Hastie 2015 and Andrews, Ramsey & Cooper 2018",
        "parameters": asked | {"edges": plan.expected_edges, "levels": list(levels)},
        "seed": seed,
    }
    truth = Structure(names, dag.astype(np.float64))
    return FederatedData(mixed_schema(tables, names, labels), tables, truth, {}, about)


def _sizes(plan: MixedSettings, rng: np.random.Generator) -> NDArray[np.int64]:
    """Return the number of levels of each variable, 0 for continuous ones, `[d]`: half of them, rounded down, have."""
    sizes = np.zeros(plan.variables, np.int64)
    chosen = rng.permutation(plan.variables)[: plan.variables // 2]
    sizes[chosen] = rng.integers(plan.levels[0], plan.levels[1] + 1, len(chosen))
    return sizes


def _silo(model: MixedModel, rows: int, plan: MixedSettings, number: int) -> FloatArray:
    """Draw the table `[rows, d]` of a silo, with its own means in the continuous columns."""
    table = draw_rows(model, rows, _stream(plan.seed, 1, number))
    means = plan.site_means * _stream(plan.seed, 2, number).standard_normal(len(model.levels))
    return np.asarray(table + np.where(model.levels > 0, 0.0, means * model.scale))


def _stream(seed: int, *key: int) -> np.random.Generator:
    """Return the random stream of one purpose: (0,) the model, (1, silo) its rows, (2, silo) its means."""
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=key))
