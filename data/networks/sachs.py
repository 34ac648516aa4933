"""Protein signalling in human T cells: 7466 cells, 11 proteins, nine conditions (Sachs et al., Science 308, 2005).

The continuous table comes from the `cdt` 0.6.0 wheel (raw fluorescence, without logarithm), as in Fassy El Fehri et
al., B.1.3. The reference graphs in the
literature disagree: `TRUTHS` has four graphs, with their sources. Wang, Ma & Wang 2023, §5.4 use discrete data instead,
sampled from a published network.
"""

from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from fedbnsl.algorithms.core.schema import Schema
from fedbnsl.algorithms.errors import BadInput
from fedbnsl.algorithms.graphs.structure import Structure

from ..defaults import DISCRETE, TRANSFORM, TRUTH, Transform, Truth
from ..federated import FederatedData, deal_rows, silo_names
from ..folder.about import Declared
from ..folder.table import open_table
from ..generators.sampling import check_counts, draw_discrete_silos, stream
from ..splitting.partition import deal, equal
from .published import carried_file, discrete_network

FILE = "cdt/data/resources/cyto_full_data.csv"
REMEDY = "pip install --no-deps cdt==0.6.0"
PROTEINS = {
    "praf": "Raf",
    "pmek": "Mek",
    "plcg": "Plcg",
    "PIP2": "PIP2",
    "PIP3": "PIP3",
    "p44/42": "Erk",
    "pakts473": "Akt",
    "PKA": "PKA",
    "PKC": "PKC",
    "P38": "P38",
    "pjnk": "Jnk",
}
"""the columns of the file, and their names in the graphs"""

CONDITIONS = {
    "cd3cd28": 853,
    "cd3cd28_icam2": 902,
    "cd3cd28_aktinhib": 911,
    "cd3cd28_g0076": 723,
    "cd3cd28_psitect": 810,
    "cd3cd28_u0126": 799,
    "cd3cd28_ly": 848,
    "pma": 913,
    "b2camp": 707,
}
"""the nine conditions in the order of the file, with their numbers of rows; the first two have no interventions"""
OBSERVATIONAL = CONDITIONS["cd3cd28"]
"""number of cells of the first condition, from which Ng & Zhang 2022 draw"""

# Arcs of all four graphs.
COMMON = """Mek>Erk PKA>Akt PKA>Erk PKA>Jnk PKA>Mek PKA>P38 PKA>Raf PKC>Jnk PKC>Mek PKC>P38 PKC>Raf Plcg>PIP2 Raf>Mek"""
EDGES: dict[Truth, str] = {
    "20": f"{COMMON} Erk>Akt PIP2>PKC PIP3>Akt PIP3>PIP2 PIP3>Plcg PKC>PKA Plcg>PKC",
    "18": f"{COMMON} PIP2>PIP3 PIP2>PKC PIP3>Akt PIP3>Plcg Plcg>PKC",
    "17": f"{COMMON} Erk>Akt PIP3>PIP2 PKC>PKA Plcg>PIP3",
    "17-fedc2sl": f"{COMMON} Erk>Akt PIP3>PIP2 PIP3>Plcg PKC>PKA",
}
TRUTHS: dict[Truth, str] = {
    "20": "the conventionally accepted network with the arcs Sachs et al. missed or reversed put right (20 edges)",
    "18": "the graph of cdt, which Fassy El Fehri et al. use; it has the cycle PIP2 → PIP3 → Plcg → PIP2 (18 edges)",
    "17": "the network Sachs et al. inferred, as in bnlearn and GraN-DAG; the count NOTEARS-ADMM gives (17 edges)",
    "17-fedc2sl": "the same with PIP3 → Plcg, as FedC2SL uses it (17 edges)",
}
"""the sources of the reference graphs, by name"""


def sachs(
    silos: int,
    seed: int,
    by_condition: bool = False,
    truth: Truth = TRUTH,
    transform: Transform = TRANSFORM,
    center: bool = False,
    rows: int | None = None,
) -> FederatedData:
    """The Sachs data in `silos` shuffled equal parts, or with its nine conditions as silos.

    Fassy El Fehri et al., B.1.3 use three silos of all 7466 cells. Ng & Zhang 2022, §6.3 draw 512 `rows` from the 853
    cells of the first condition for each run. The seed determines the draw and the shuffling. Values are raw by
    default; `transform="log"` takes natural logarithms, and `center` then subtracts the mean over all cells, not the
    mean of each silo. `about` records the options. Raises `BadInput` if the table is not installed, for an unknown
    truth or transform, for more rows than cells, and for rows drawn by condition.
    """
    if transform not in get_args(Transform):
        raise BadInput(f"transform: {transform!r} is not one of {', '.join(get_args(Transform))}")
    if seed < 0:
        raise BadInput(f"seed: {seed} is less than 0")
    if rows is not None and by_condition:
        raise BadInput(f"rows is '{rows}': rows are drawn from the first condition alone, not by condition")
    if rows is not None and rows > OBSERVATIONAL:
        raise BadInput(f"rows is '{rows}': the first condition has {OBSERVATIONAL} cells")
    graph = sachs_truth(truth)
    rng = np.random.default_rng(seed)
    values = sachs_table()
    values = values if rows is None else values[rng.permutation(OBSERVATIONAL)[:rows]]
    values = np.log(values) if transform == "log" else values
    values = values - values.mean(axis=0) if center else values
    parameters: dict[str, Any] = {"transform": transform, "center": center, "truth": truth}
    about: dict[str, Any] = {
        "kind": "continuous",
        "generator": "sachs",
        "source": "Sachs et al., Science 308:523-529, 2005; table of the cdt 0.6.0 wheel",
        "truth": TRUTHS[truth],
    }
    if by_condition:
        about["parameters"] = {"by_condition": True, **parameters}
        return deal(values, graph.variables, _condition_rows(), graph, about, "sachs")
    if rows is not None:
        parameters["rows"] = rows
    parts = equal(len(values), silos, rng)
    named = dict(zip(silo_names(silos), parts, strict=True))
    return deal(
        values,
        graph.variables,
        named,
        graph,
        about | {"parameters": {"silos": silos, **parameters}, "seed": seed},
        "sachs",
    )


def discrete_sachs(silos: int, rows: int, seed: int) -> FederatedData:
    """Draw `rows` rows in total from the discrete network of Sachs et al., and deal them to `silos` in equal parts.

    Each protein has three levels; Wang, Ma & Wang 2023, §5.4 use 853 rows. The union of the silos does not depend on
    their number. The truth is the network's graph of 17 edges. Raises `BadInput` for silos < 1, too few rows or seed
    < 0.
    """
    check_counts(silos, rows, seed)
    about = {
        "generator": "discrete-sachs",
        "source": f"{DISCRETE['sachs']}; bnlearn repository (CC BY-SA 3.0), file of the pgmpy wheel; "
        "Wang, Ma & Wang 2023, §5.4",
        "parameters": {"silos": silos, "rows": rows},
        "seed": seed,
    }
    whole = draw_discrete_silos(discrete_network("sachs"), 1, rows, seed, about)
    parts = equal(rows, silos, stream(seed, "dealing"))
    return deal_rows(whole, dict(zip(silo_names(silos), parts, strict=True)), {})


def sachs_truth(name: Truth) -> Structure:
    """One of the graphs of `TRUTHS`, with weights of 1. Raises `BadInput` for an unknown name."""
    if name not in EDGES:
        raise BadInput(f"truth: {name!r} is not one of {', '.join(EDGES)}")
    variables = tuple(PROTEINS.values())
    weights = np.zeros((len(variables), len(variables)))
    for source, target in (edge.split(">") for edge in EDGES[name].split()):
        weights[variables.index(source), variables.index(target)] = 1.0
    return Structure(variables, weights)


def sachs_table() -> NDArray[np.float64]:
    """All cells, [7466, 11], in the order of the file. Raises `BadInput` if cdt 0.6.0 is not installed."""
    table = open_table(carried_file("cdt", FILE, REMEDY), Declared("continuous"))
    found = table.profile()
    if found.variables != tuple(PROTEINS) or found.rows != sum(CONDITIONS.values()):
        raise BadInput(f"{FILE}: {found.rows} rows, with other columns than cdt 0.6.0 has: {REMEDY}")
    return table.view(Schema(tuple(PROTEINS), {"all": found.rows}), "all").array()


def _condition_rows() -> dict[str, NDArray[np.intp]]:
    ends = np.cumsum(list(CONDITIONS.values()))
    return {name: np.arange(end - rows, end) for (name, rows), end in zip(CONDITIONS.items(), ends, strict=True)}
