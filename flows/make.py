"""Make the data set that a recipe describes."""

from dataclasses import replace
from pathlib import Path
from typing import assert_never

import numpy as np

from fedbnsl.algorithms.errors import BadInput
from fedbnsl.data.federated import FederatedData
from fedbnsl.data.folder.folder import Form, read_folder
from fedbnsl.data.generators.amputate import amputated
from fedbnsl.data.generators.discrete import discrete
from fedbnsl.data.generators.dynamic import dynamic
from fedbnsl.data.generators.linear import heterogeneous, homogeneous
from fedbnsl.data.generators.mixed import mixed
from fedbnsl.data.generators.nonlinear import nonlinear
from fedbnsl.data.networks.lucas import lucas
from fedbnsl.data.networks.published import network
from fedbnsl.data.networks.sachs import discrete_sachs, sachs
from fedbnsl.data.networks.surrogate import surrogate
from fedbnsl.data.recordings.series import series
from fedbnsl.data.splitting.partition import split_table

from .options.prepare import (
    Amputate,
    Discrete,
    Heterogeneous,
    Homogeneous,
    Lucas,
    Mixed,
    Network,
    Nonlinear,
    Recipe,
    Sachs,
    Split,
    Surrogate,
)
from .options.time_series import Dynamic, Series

DISCRETE_SACHS_ROWS = 853
"""the rows of the table's first condition, as Wang, Ma & Wang 2023, §5.4 use them"""


def make(recipe: Recipe) -> FederatedData:
    """Return the data set of `recipe`; raises `BadInput` for values that make no sense together."""
    match recipe:
        case Homogeneous():
            return homogeneous(**recipe.model_dump(exclude={"kind"}))
        case Heterogeneous():
            return heterogeneous(**recipe.model_dump(exclude={"kind"}))
        case Nonlinear():
            return nonlinear(**recipe.model_dump(exclude={"kind"}))
        case Discrete():
            return discrete(**recipe.model_dump(exclude={"kind", "levels"}), levels=_range(recipe.levels))
        case Mixed():
            return mixed(**recipe.model_dump(exclude={"kind", "levels", "form"}), levels=_range(recipe.levels))
        case Surrogate():
            return surrogate(**recipe.model_dump(exclude={"kind", "levels"}), levels=_range(recipe.levels))
        case Sachs():
            return _sachs(recipe)
        case Network():
            return network(recipe.network, recipe.silos, recipe.rows, recipe.seed, recipe.latent)
        case Lucas():
            return lucas(recipe.version, recipe.silos, recipe.rows, recipe.seed)
        case Split():
            return _split(recipe)
        case Amputate():
            return _amputated(recipe)
        case Dynamic():
            return dynamic(**recipe.model_dump(exclude={"kind"}))
        case Series():
            truth = Path(recipe.truth) if recipe.truth else None
            columns = recipe.model_dump(exclude={"kind", "table", "truth"})
            return series(Path(recipe.table), **columns, truth=truth)
    assert_never(recipe)


def form_of(recipe: Recipe) -> Form:
    """Return what kind of files the rows of `recipe` are written to."""
    return recipe.form if isinstance(recipe, Split | Amputate | Mixed) else "csv"


def _range(levels: str) -> tuple[int, int]:
    fewest, _, most = levels.partition("-")
    return int(fewest), int(most or fewest)


def _sachs(recipe: Sachs) -> FederatedData:
    if not recipe.discrete:
        if recipe.rows is not None:
            raise BadInput(f"rows is '{recipe.rows}': only discrete data are drawn, the table has 7466 cells")
        return sachs(**recipe.model_dump(exclude={"kind", "discrete", "rows"}))
    for name in ("by_condition", "truth", "transform", "center"):
        if getattr(recipe, name) != Sachs.model_fields[name].default:
            raise BadInput(f"{name} is '{getattr(recipe, name)}': discrete data are drawn from one network of 17 edges")
    return discrete_sachs(recipe.silos, recipe.rows or DISCRETE_SACHS_ROWS, recipe.seed)


def _split(recipe: Split) -> FederatedData:
    options = recipe.model_dump(exclude={"kind", "table", "data_kind", "truth", "form"})
    truth = Path(recipe.truth) if recipe.truth else None
    return split_table(Path(recipe.table), **options, kind=recipe.data_kind, truth=truth)


def _amputated(recipe: Amputate) -> FederatedData:
    rng = np.random.default_rng(recipe.seed)
    found = amputated(read_folder(Path(recipe.source)), recipe.mechanism, recipe.share, rng)
    return replace(found, about=found.about | {"amputated": {**found.about["amputated"], "seed": recipe.seed}})
