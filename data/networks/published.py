"""Rows of published networks, Gaussian and discrete (`catalogue.py`), and of a BIF file of one's own."""

import json
from pathlib import Path
from typing import Any

import numpy as np

from fedbnsl.algorithms.errors import BadInput
from fedbnsl.algorithms.parameters.network_json import gaussian_from_json
from fedbnsl.algorithms.parameters.networks import DiscreteNetwork, GaussianNetwork

from ..federated import FederatedData, continuous, silo_names
from ..generators.draw import check_counts, draw, stream
from ..generators.latent import hide
from ..generators.sem import linear_sem
from .bif import read_bif
from .carried import carried_file
from .catalogue import DISCRETE, GAUSSIAN

FOLDER = "pgmpy/utils/example_models"
REMEDY = "pip install 'pgmpy>=1.1,<1.3'"
REPOSITORY = "bnlearn repository (CC BY-SA 3.0), file of the pgmpy wheel"


def gaussian_network(name: str) -> GaussianNetwork:
    """Return the network `name` with its published coefficients. Raises `BadInput` for an unknown one."""
    if name not in GAUSSIAN:
        raise BadInput(f"network: {name!r} is not one of {', '.join(GAUSSIAN)}")
    path = carried_file("pgmpy", f"{FOLDER}/{name}.json", REMEDY)
    return gaussian_from_json(json.loads(path.read_text(encoding="utf-8")), str(path))


def discrete_network(name: str) -> DiscreteNetwork:
    """Return the discrete network `name` with its published tables, or that of a file (.bif or .bif.gz).

    Raises `BadInput` for an unknown name, and as `read_bif` does.
    """
    if name in DISCRETE:
        return read_bif(carried_file("pgmpy", f"{FOLDER}/{name}.bif.gz", REMEDY))
    if not _is_bif(name):
        raise BadInput(f"network: {name!r} is not one of {', '.join(DISCRETE)}, nor a .bif file")
    return read_bif(Path(name))


def network(name: str, silos: int, rows: int, seed: int, latent: int = 0) -> FederatedData:
    """Draw silos of `rows` rows each from the network `name`, Gaussian or discrete, or of a BIF file of that name.

    Of a Gaussian network with its intercepts and variances, nothing scaled, each silo with a random stream of its own;
    the truth has the coefficients as weights. Of a discrete one as `draw` does. `latent` variables are hidden (`hide`).
    Raises `BadInput` for an unknown network, silos < 1, rows < 2 or seed < 0.
    """
    check_counts(silos, rows, seed)
    published = GAUSSIAN | DISCRETE
    if name not in published and not _is_bif(name):
        raise BadInput(f"network: {name!r} is not one of {', '.join(sorted(published))}, nor a .bif file")
    about = {
        "generator": "network",
        "source": f"{published[name]}; {REPOSITORY}" if name in published else "a BIF file",
        "parameters": {"network": Path(name).name, "silos": silos, "rows": rows},
        "seed": seed,
    }
    if name in GAUSSIAN:
        whole = _draw_gaussian(gaussian_network(name), silos, rows, seed, {"kind": "continuous", **about})
    else:
        whole = draw(discrete_network(name), silos, rows, seed, about)
    return hide(whole, latent, stream(seed, "latent"))


def _draw_gaussian(model: GaussianNetwork, silos: int, rows: int, seed: int, about: dict[str, Any]) -> FederatedData:
    tables = {}
    truth, deviations = model.structure, np.sqrt(model.variances)
    for number, silo in enumerate(silo_names(silos)):
        rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(1, number)))
        tables[silo] = linear_sem(
            model.structure.weights, rows, rng, intercepts=model.intercepts, deviations=deviations
        )
    return FederatedData(continuous(tables, truth.variables), tables, truth, {}, about)


def _is_bif(name: str) -> bool:
    return name.lower().endswith((".bif", ".bif.gz"))
