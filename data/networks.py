"""Published Gaussian networks of the bnlearn repository, ecoli70 and others, as the pgmpy wheel carries them."""

import json
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedbnsl.algorithms.errors import BadInput
from fedbnsl.algorithms.graphs.structure import Structure

from .carried import carried_file
from .federated import FederatedData, continuous
from .generate import silo_names
from .sem import FloatArray, linear_sem

FOLDER = "pgmpy/utils/example_models"
REMEDY = "pip install 'pgmpy>=1.1,<1.3'"
OPGEN_RHEIN = "R. Opgen-Rhein, K. Strimmer, BMC Systems Biology 1(37), 2007"
GAUSSIAN = {
    "arth150": f"Arabidopsis thaliana gene expression, 107 variables; {OPGEN_RHEIN}",
    "ecoli70": f"Escherichia coli gene expression, 46 variables; {OPGEN_RHEIN}",
    "magic-irri": "rice traits and genes of a MAGIC population, 64 variables; M. Scutari, ICQG 2016",
    "magic-niab": "wheat traits and genes of a MAGIC population, 44 variables; M. Scutari et al., Genetics 198, 2014",
}
"""the networks by name (bnlearn Bayesian Network Repository, CC BY-SA 3.0)"""


@dataclass(frozen=True, eq=False)
class GaussianNetwork:
    """A linear Gaussian network: x_j = intercept_j + Σ_i W_ij x_i + N(0, variance_j)."""

    truth: Structure
    intercepts: FloatArray
    variances: FloatArray


def gaussian_network(name: str) -> GaussianNetwork:
    """Return the network `name` with its published coefficients. Raises `BadInput` for an unknown one."""
    if name not in GAUSSIAN:
        raise BadInput(f"network: {name!r} is not one of {', '.join(GAUSSIAN)}")
    path = carried_file("pgmpy", f"{FOLDER}/{name}.json", REMEDY)
    content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    variables = tuple(content["nodes"])
    place = {variable: number for number, variable in enumerate(variables)}
    weights = np.zeros((len(variables), len(variables)))
    intercepts, variances = np.zeros(len(variables)), np.zeros(len(variables))
    for variable, model in content["cpds"].items():
        j = place[variable]
        variances[j] = model["variance"][0]
        for parent, (coefficient,) in model["coefficients"].items():
            if parent == "(Intercept)":
                intercepts[j] = coefficient
            else:
                weights[place[parent], j] = coefficient
    if {(variables[i], variables[j]) for i, j in np.argwhere(weights)} != {tuple(arc) for arc in content["arcs"]}:
        raise BadInput(f"{path}: the arcs are not those of the coefficients")
    return GaussianNetwork(Structure(variables, weights), intercepts, variances)


def network(name: str, silos: int, rows: int, seed: int) -> FederatedData:
    """Draw silos of `rows` rows each from the network `name`, with its intercepts and variances, nothing scaled.

    Each silo has a random stream of its own. The truth has the coefficients as weights. Raises `BadInput` for an
    unknown network, silos < 1, rows < 2 or seed < 0.
    """
    for parameter, value, least in (("silos", silos, 1), ("rows", rows, 2), ("seed", seed, 0)):
        if value < least:
            raise BadInput(f"{parameter}: {value} is less than {least}")
    model = gaussian_network(name)
    tables = {}
    for number, silo in enumerate(silo_names(silos)):
        rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(1, number)))
        deviations = np.sqrt(model.variances)
        tables[silo] = linear_sem(model.truth.weights, rows, rng, intercepts=model.intercepts, deviations=deviations)
    about = {
        "kind": "continuous",
        "generator": "network",
        "source": f"{GAUSSIAN[name]}; bnlearn repository (CC BY-SA 3.0), file of the pgmpy wheel",
        "parameters": {"network": name, "silos": silos, "rows": rows},
        "seed": seed,
    }
    return FederatedData(continuous(tables, model.truth.variables), tables, model.truth, {}, about)
