"""Hidden variables: columns that are removed from every silo, with the PAG over the remaining columns as the truth."""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from fedbnsl.algorithms.errors import BadInput
from fedbnsl.algorithms.graphs.pag import pag_of
from fedbnsl.algorithms.graphs.structure import Structure

from ..federated import FederatedData

MIN_VISIBLE = 2
"""minimum number of visible variables"""


def hide(data: FederatedData, latent: int, rng: np.random.Generator) -> FederatedData:
    """`data`, whose truth is a DAG, without `latent` variables; the truth becomes the PAG over the visible variables.

    Wang, Ma & Wang 2023, §7.4 hide variables at random; here common causes of other variables are hidden first
    (`choose_hidden`). Raises `BadInput` if fewer than two variables would stay, and `ValueError` without a truth.
    """
    if latent == 0:
        return data
    variables = data.schema.variables
    if not 0 < latent <= len(variables) - MIN_VISIBLE:
        raise BadInput(
            f"latent: {latent} is not between 0 and {len(variables) - MIN_VISIBLE}: {MIN_VISIBLE} variables must stay"
        )
    if data.truth is None:
        raise ValueError("hiding variables needs a truth")
    hidden = choose_hidden(data.truth.adjacency, latent, rng)
    visible = [v for v in range(len(variables)) if v not in set(hidden)]
    names = tuple(variables[v] for v in visible)
    levels = {name: data.schema.levels[name] for name in names if name in data.schema.levels}
    tables = {silo: np.ascontiguousarray(table[:, visible]) for silo, table in data.tables.items()}
    truth = Structure(names, pag_of(data.truth.adjacency, hidden).astype(np.float64), "pag")
    about = {**data.about, "latent": [variables[v] for v in hidden]}
    return FederatedData(replace(data.schema, variables=names, levels=levels), tables, truth, {}, about)


def choose_hidden(dag: NDArray[np.bool_], latent: int, rng: np.random.Generator) -> list[int]:
    """Choose `latent` variables of `dag` [n_variables, n_variables] to hide, sorted.

    The choice is random among variables with two or more children, because hidden common causes confound. If these are
    not enough, variables with one child follow, and at last sinks, whose absence changes nothing.
    """
    children = np.minimum(dag.sum(axis=1), 2)
    order = np.lexsort((rng.random(len(dag)), -children))
    return sorted(int(v) for v in order[:latent])
