"""Synthetic discrete federated data: silos of rows from one random network (Wang, Ma & Wang 2023, §7.4)."""

from typing import Any

from fedbnsl.algorithms.errors import BadInput
from fedbnsl.algorithms.parameters.networks import Network

from ..defaults import DEGREE, LEVELS
from ..federated import FederatedData
from .hidden_variables import hide
from .random_graphs import max_edges, random_dag, variable_names
from .random_network import random_network
from .sampling import check_counts, draw_discrete_silos, stream

Levels = tuple[int, int]


def discrete(
    variables: int,
    silos: int,
    rows: int,
    seed: int,
    degree: float = DEGREE,
    levels: Levels = LEVELS,
    concentration: float | None = None,
    latent: int = 0,
) -> FederatedData:
    """Draw silos of `rows` rows each from one random discrete network on an ER graph of mean `degree`.

    Source: Wang, Ma & Wang 2023, §7.4. `levels` and `concentration` are arguments of `random_network`. The truth is the
    DAG or, if `latent` variables are hidden (`hide`), the PAG over the remaining variables. Raises `BadInput` for an
    invalid value.
    """
    check_counts(silos, rows, seed)
    model = random_model(variables, seed, degree, levels, concentration)
    parameters = {"variables": variables, "silos": silos, "rows": rows, "degree": degree, "levels": list(levels)}
    parameters |= {"concentration": concentration}
    about = about_generator("discrete", "Wang, Ma & Wang 2023, §7.4", seed, parameters)
    return hide(draw_discrete_silos(model, silos, rows, seed, about), latent, stream(seed, "latent"))


def random_model(variables: int, seed: int, degree: float, levels: Levels, concentration: float | None) -> Network:
    """A random network on an ER graph of mean `degree`. Raises `BadInput` for an invalid value."""
    if variables < 2:
        raise BadInput(f"variables: {variables} is less than 2")
    if not 0 <= degree <= variables - 1:
        raise BadInput(f"degree: {degree} is not between 0 and {variables - 1}, the maximum of {variables} variables")
    if not 2 <= levels[0] <= levels[1]:
        raise BadInput(f"levels: {levels[0]}-{levels[1]} is not a range of numbers from 2 on")
    if concentration is not None and not 0 < concentration < float("inf"):
        raise BadInput(f"concentration: {concentration} is not a positive number")
    rng = stream(seed, "graph")
    edges = min(round(degree * variables / 2), max_edges(variables))
    return random_network(random_dag(variables, edges, rng), variable_names(variables), levels, concentration, rng)


def about_generator(generator: str, source: str, seed: int, parameters: dict[str, Any]) -> dict[str, Any]:
    """The description of generated data for `about.json`."""
    return {"generator": generator, "source": source, "parameters": parameters, "seed": seed}
