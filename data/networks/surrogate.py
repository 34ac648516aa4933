"""Heterogeneous silos by a hidden surrogate variable, with rows of a random or a published network.

Source: Wang, Ma & Wang 2023, Def. 1. The surrogate C ∈ [K] is a child of a set S of variables, and silo i has the rows
with C = i. The union of the silos has the true distribution; each silo has a biased one. S = ∅ is the homogeneous case.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedbnsl.algorithms.errors import BadInput

from ..defaults import DEGREE, LEVELS
from ..federated import MIN_SILO_ROWS, FederatedData, deal_rows, silo_names
from ..generators.discrete import Levels, about_generator, random_model
from ..generators.hidden_variables import hide
from ..generators.random_network import dirichlet_rows
from ..generators.sampling import Codes, check_counts, cumulative_rows, draw_discrete_silos, inverse_cdf, stream
from ..splitting.partition import Parts, equal
from .published import discrete_network


def surrogate(
    silos: int,
    rows: int,
    seed: int,
    parents: int,
    variables: int,
    degree: float = DEGREE,
    levels: Levels = LEVELS,
    concentration: float | None = None,
    latent: int = 0,
    network: str | None = None,
) -> FederatedData:
    """Draw `silos` · `rows` rows and split them by a hidden child C of `parents` visible variables.

    Source: Wang, Ma & Wang 2023, Def. 1. Without a `network`, the rows are those of `discrete` with these settings,
    split in another way. A `network` is a published network or a BIF file. Silos have `rows` rows on average. The
    program of Wang, Ma & Wang 2023 uses 5 parents. Raises `BadInput` for an invalid value, and for a silo with fewer
    than two rows.
    """
    check_counts(silos, rows, seed)
    parameters: dict[str, Any] = {"silos": silos, "rows": rows, "parents": parents, "concentration": concentration}
    if network is None:
        model = random_model(variables, seed, degree, levels, concentration)
        parameters |= {"variables": variables, "degree": degree, "levels": list(levels)}
    else:
        model = discrete_network(network)
        parameters |= {"network": network}
    about = about_generator("surrogate", "Wang, Ma & Wang 2023, Def. 1", seed, parameters)
    whole = hide(draw_discrete_silos(model, 1, silos * rows, seed, about), latent, stream(seed, "latent"))
    (codes,) = whole.tables.values()
    rng = stream(seed, "surrogate")
    chosen = surrogate_set(codes.shape[1], parents, rng)
    parts = by_surrogate(codes[:, chosen], silos, concentration, rng)
    named = dict(zip(silo_names(silos), parts, strict=True))
    return deal_rows(whole, named, {"surrogate_parents": [whole.schema.variables[v] for v in chosen]})


def surrogate_set(variables: int, size: int, rng: np.random.Generator) -> NDArray[np.intp]:
    """Draw S, `size` of the variables, sorted. Raises `BadInput` if `size` exceeds the number of variables."""
    if not 0 <= size <= variables:
        raise BadInput(f"parents: {size} is not between 0 and {variables}, the number of variables")
    return np.sort(rng.choice(variables, size=size, replace=False))


def by_surrogate(given: Codes, silos: int, concentration: float | None, rng: np.random.Generator) -> Parts:
    """The row numbers of each silo, from the columns S of the table, `given` [n_rows, |S|].

    P(C | S) is a Dirichlet draw for every configuration of S that occurs (see `random_network` for `concentration`).
    With S = ∅ the rows are shuffled and dealt in equal parts. Raises `BadInput` for a silo with fewer than two rows.
    """
    if given.shape[1] == 0:
        return equal(len(given), silos, rng)
    configurations, row = np.unique(given, axis=0, return_inverse=True)
    table = cumulative_rows(dirichlet_rows(len(configurations), silos, concentration, rng))
    owner = inverse_cdf(table, row.reshape(-1), rng.random(len(given)))
    parts = [np.flatnonzero(owner == silo) for silo in range(silos)]
    least = min(range(silos), key=lambda silo: len(parts[silo]))
    if len(parts[least]) < MIN_SILO_ROWS:
        raise BadInput(
            f"silos: {len(parts[least])} of {len(given)} rows have C = {least + 1}, a silo needs {MIN_SILO_ROWS}: "
            "give more rows, fewer silos, more parents or a larger concentration"
        )
    return parts
