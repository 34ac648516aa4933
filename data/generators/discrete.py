"""Synthetic discrete federated data: random networks, homogeneous or split by a surrogate variable (003 §7.4)."""

from typing import Any

from fedbnsl.algorithms.errors import BadInput
from fedbnsl.algorithms.parameters.networks import DiscreteNetwork

from ..defaults import DEGREE, LEVELS
from ..federated import FederatedData
from ..networks.published import discrete_network
from .draw import check_counts, dealt, draw, stream
from .latent import hide
from .linear import most_edges, random_dag, silo_names, variable_names
from .random_network import random_network
from .surrogate import by_surrogate, surrogate_set

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
    """Draw silos of `rows` rows each from one random discrete network on an ER graph of mean `degree` (003 §7.4).

    `levels` and `concentration` are those of `random_network`. The truth is the DAG, or the PAG over the rest if
    `latent` variables are hidden (`hide`). Raises `BadInput` for a value that makes no sense.
    """
    check_counts(silos, rows, seed)
    model = _random(variables, seed, degree, levels, concentration)
    parameters = {"variables": variables, "silos": silos, "rows": rows, "degree": degree, "levels": list(levels)}
    about = _about("discrete", "003 §7.4", seed, parameters | {"concentration": concentration})
    return hide(draw(model, silos, rows, seed, about), latent, stream(seed, "latent"))


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
    """Draw `silos` · `rows` rows and split them by a hidden child C of `parents` visible variables (003 Def. 1).

    The rows are those of `discrete` with the same settings, or of a published `network` (or BIF file) if one is named:
    only the split differs. Silos hold `rows` rows on average. The program of 003 takes 5 parents. Raises `BadInput` for
    a value that makes no sense, and for a silo that gets fewer than two rows.
    """
    check_counts(silos, rows, seed)
    parameters: dict[str, Any] = {"silos": silos, "rows": rows, "parents": parents, "concentration": concentration}
    if network is None:
        model = _random(variables, seed, degree, levels, concentration)
        parameters |= {"variables": variables, "degree": degree, "levels": list(levels)}
    else:
        model = discrete_network(network)
        parameters |= {"network": network}
    about = _about("surrogate", "003 Def. 1", seed, parameters)
    whole = hide(draw(model, 1, silos * rows, seed, about), latent, stream(seed, "latent"))
    (codes,) = whole.tables.values()
    rng = stream(seed, "surrogate")
    chosen = surrogate_set(codes.shape[1], parents, rng)
    parts = by_surrogate(codes[:, chosen], silos, concentration, rng)
    named = dict(zip(silo_names(silos), parts, strict=True))
    return dealt(whole, named, {"surrogate_parents": [whole.schema.variables[v] for v in chosen]})


def _random(variables: int, seed: int, degree: float, levels: Levels, concentration: float | None) -> DiscreteNetwork:
    if variables < 2:
        raise BadInput(f"variables: {variables} is less than 2")
    if not 0 <= degree <= variables - 1:
        raise BadInput(f"degree: {degree} is not between 0 and {variables - 1}, the most of {variables} variables")
    if not 2 <= levels[0] <= levels[1]:
        raise BadInput(f"levels: {levels[0]}-{levels[1]} is not a range of numbers from 2 on")
    if concentration is not None and not 0 < concentration < float("inf"):
        raise BadInput(f"concentration: {concentration} is not a positive number")
    rng = stream(seed, "graph")
    edges = min(round(degree * variables / 2), most_edges(variables))
    return random_network(random_dag(variables, edges, rng), variable_names(variables), levels, concentration, rng)


def _about(generator: str, source: str, seed: int, parameters: dict[str, Any]) -> dict[str, Any]:
    return {"generator": generator, "source": source, "parameters": parameters, "seed": seed}
