"""Hidden variables: columns removed from every silo, and the PAG that is left to learn."""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from fedbnsl.algorithms.errors import BadInput
from fedbnsl.algorithms.graphs.pag import pag_of
from fedbnsl.algorithms.graphs.structure import Structure

from ..federated import FederatedData

LEFT = 2
"""variables that must stay"""


def hide(data: FederatedData, latent: int, rng: np.random.Generator) -> FederatedData:
    """Return `data`, whose truth is a DAG, without `latent` of its variables; the truth is then the PAG over the rest.

    Wang, Ma & Wang 2023, §7.4 hides variables at random; here those whose absence confounds others are hidden first
    (`hidden`). Raises `BadInput` if fewer than two variables would stay.
    """
    if latent == 0:
        return data
    variables = data.schema.variables
    if not 0 < latent <= len(variables) - LEFT:
        raise BadInput(f"latent: {latent} is not between 0 and {len(variables) - LEFT}: {LEFT} variables must stay")
    if data.truth is None:
        raise ValueError("hiding variables needs a truth")
    gone = hidden(data.truth.adjacency, latent, rng)
    keep = [v for v in range(len(variables)) if v not in set(gone)]
    names = tuple(variables[v] for v in keep)
    levels = {name: data.schema.levels[name] for name in names if name in data.schema.levels}
    tables = {silo: np.ascontiguousarray(table[:, keep]) for silo, table in data.tables.items()}
    truth = Structure(names, pag_of(data.truth.adjacency, gone).astype(np.float64), "pag")
    about = {**data.about, "latent": [variables[v] for v in gone]}
    return FederatedData(replace(data.schema, variables=names, levels=levels), tables, truth, {}, about)


def hidden(dag: NDArray[np.bool_], latent: int, rng: np.random.Generator) -> list[int]:
    """Choose `latent` variables of `dag` [n_variables, n_variables] to hide, sorted.

    At random among those with two children or more, as a hidden common cause is what confounds; if there are not
    enough, then among those with one child; sinks, whose absence changes nothing, last.
    """
    children = np.minimum(dag.sum(axis=1), 2)
    order = np.lexsort((rng.random(len(dag)), -children))
    return sorted(int(v) for v in order[:latent])
