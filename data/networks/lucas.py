"""LUCAS: a simulated study of lung cancer with known causes, for causal feature selection (Wang, Ma & Wang 2023, §7.5).

The Causality Workbench publishes the graph and the probabilities of LUCAS0 (I. Guyon et al., "Design and analysis of
the causation and prediction challenge", JMLR W&CP 3, 2008). LUCAS1 and LUCAS2 have interventions on some variables,
which cut these variables from their parents. The probabilities of the interventions are not published. This module uses
the shares of the value 1 in the test files of the program of Wang, Ma & Wang 2023 (10,000 rows, standard error at most
0.005).
"""

from typing import get_args

import numpy as np

from fedbnsl.algorithms.core.schema import FloatArray
from fedbnsl.algorithms.errors import BadInput
from fedbnsl.algorithms.parameters.networks import Network

from ..defaults import Version
from ..federated import FederatedData
from ..generators.sampling import draw_discrete_silos

TARGET = "Lung_Cancer"
LEVELS = ("0", "1")

# P(variable = 1 | parents), for the parents' configurations 00, 01, 10, 11.
TABLES: dict[str, tuple[tuple[str, ...], tuple[float, ...]]] = {
    "Smoking": (("Peer_Pressure", "Anxiety"), (0.43118, 0.86860, 0.74591, 0.91576)),
    "Yellow_Fingers": (("Smoking",), (0.23119, 0.95372)),
    "Anxiety": ((), (0.64277,)),
    "Peer_Pressure": ((), (0.32997,)),
    "Genetics": ((), (0.15953,)),
    "Attention_Disorder": (("Genetics",), (0.28956, 0.68706)),
    "Born_an_Even_Day": ((), (0.5,)),
    "Car_Accident": (("Attention_Disorder", "Fatigue"), (0.22740, 0.78861, 0.77900, 0.97169)),
    "Fatigue": (("Lung_Cancer", "Coughing"), (0.35212, 0.80016, 0.56514, 0.89589)),
    "Allergy": ((), (0.32841,)),
    "Coughing": (("Allergy", "Lung_Cancer"), (0.13470, 0.76640, 0.64592, 0.99947)),
    "Lung_Cancer": (("Genetics", "Smoking"), (0.23146, 0.83934, 0.86996, 0.99351)),
}
SET: dict[Version, dict[str, float]] = {
    "0": {},
    "1": {"Smoking": 0.745, "Yellow_Fingers": 0.505, "Attention_Disorder": 0.48, "Fatigue": 0.655},
    "2": {
        "Smoking": 0.745,
        "Yellow_Fingers": 0.505,
        "Attention_Disorder": 0.48,
        "Fatigue": 0.655,
        "Coughing": 0.637,
        "Car_Accident": 0.69,
    },
}
"""for each version, the variables with interventions, and the probability that each has the value 1"""


def lucas(version: Version, silos: int, rows: int, seed: int) -> FederatedData:
    """Draw silos of `rows` rows each of LUCAS0, 1 or 2: twelve variables with the levels 0 and 1.

    Wang, Ma & Wang 2023 train on 2000 rows. The truth is the graph of the version, without edges into variables with
    interventions. Raises `BadInput` for an unknown version, silos < 1, rows < 2 or seed < 0.
    """
    about = {
        "generator": "lucas",
        "source": "Causality Workbench, LUCAS (Guyon et al., JMLR W&CP 3, 2008); "
        "interventions estimated, Wang, Ma & Wang 2023, §7.5",
        "parameters": {"version": version, "silos": silos, "rows": rows},
        "seed": seed,
        "target": TARGET,
        "set": sorted(SET.get(version, {})),
    }
    return draw_discrete_silos(lucas_network(version), silos, rows, seed, about)


def lucas_network(version: Version) -> Network:
    """The network of LUCAS0, 1 or 2. Raises `BadInput` for another version."""
    if version not in get_args(Version):
        raise BadInput(f"version: {version!r} is not one of {', '.join(get_args(Version))}")
    causes = TABLES | {name: ((), (share,)) for name, share in SET[version].items()}
    tables: dict[str, FloatArray] = {}
    for name, (parents, ones) in causes.items():
        share = np.array(ones).reshape((2,) * len(parents))
        tables[name] = np.stack([1 - share, share], axis=-1)
    parents_of = {name: parents for name, (parents, _) in causes.items()}
    return Network(tuple(TABLES), dict.fromkeys(TABLES, LEVELS), parents_of, tables)
