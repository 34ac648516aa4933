"""Graphs in the formats of other libraries, scores of a graph against the true graph, and changes between runs."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fedbnsl.algorithms.errors import BadInput
from fedbnsl.algorithms.graphs.compare import compare as scores_against
from fedbnsl.algorithms.graphs.structure import Structure
from fedbnsl.data.folder.folder import read_structure

# The other imports are late, so that the comparison of two files does not wait for them.
if TYPE_CHECKING:
    import pandas as pd

    from fedbnsl.tracking.comparison import Comparison, PastRun
    from fedbnsl.tracking.metrics import MetricValue

    from .learned import Learned

GRAPH_FORMS = (
    "give the result of learn, a CSV file of edges, a DataFrame of weights with the variables as index and columns, or "
    "a networkx.DiGraph"
)


def evaluate(
    learned: Any, truth: Any, *, allow_cyclic_truth: bool = False, own_lags: bool = False
) -> "dict[str, MetricValue]":
    """The scores of the graph `learned` against the graph `truth`: SHD, TPR, FDR, F1 and others.

    Each graph is the result of `learn`, a CSV file, a DataFrame of weights or a `networkx.DiGraph`. A CSV file has the
    columns source and target (and type, if some edges are undirected). A DataFrame `[n_variables, n_variables]` has the
    variables as index and columns. An edge in both directions makes the graph a CPDAG. Variables are matched by name. A
    file contains only the variables of its edges; further variables would only change AUROC and AUPR.

    Raises
    ------
    BadInput
        A ValueError, for graphs in other forms, and for a cyclic truth unless `allow_cyclic_truth`.
    """
    named = dict.fromkeys([*_variables(truth), *_variables(learned)])
    found, true = (as_structure(one, tuple(named)) for one in (learned, truth))
    return dict(scores_against(found, true, allow_cyclic_truth=allow_cyclic_truth, own_lags=own_lags))


def compare(before: "Learned | str | Path", after: "Learned | str | Path") -> "Comparison":
    """The differences of the run `after` from the run `before`: edges gained, lost and turned, and parameter drift.

    Each run is the result of `learn` or the folder of a finished run. The `str` of the comparison is one sentence. Its
    `metrics` are numbers, and `structure.changed` has the changed edges. `drift` is the Kullback-Leibler divergence of
    the earlier model from the later model, in nats per row, by variable.

    Raises
    ------
    BadInput
        A ValueError, for a folder without a finished run.
    """
    from fedbnsl.tracking.comparison import compare_runs

    return compare_runs(_past_run(before), _past_run(after))


def _past_run(run: "Learned | str | Path") -> "PastRun":
    from fedbnsl.tracking.comparison import PastRun

    from ..engines.run_comparison import read_run
    from .learned import Learned

    if not isinstance(run, Learned):
        return read_run(Path(run))
    result = run.result
    return PastRun(result.name, result.structure, result.parameters.network if result.parameters else None)


def _variables(graph: Any) -> Sequence[str]:
    return as_structure(graph).variables


def as_structure(graph: Any, variables: Sequence[str] | None = None) -> Structure:
    """`graph`, in a form that `evaluate` accepts, as a structure over `variables`, by default the graph's variables.

    Raises `BadInput` for other forms, and for a variable that is not among `variables`.
    """
    if isinstance(graph, str | Path):
        return read_structure(Path(graph), variables)
    from .learned import Learned

    if isinstance(graph, Learned):
        graph = graph.result.structure
    if not isinstance(graph, Structure):
        graph = _of_matrix(_matrix(graph))
    return graph if variables is None else _over(graph, variables)


def _matrix(graph: Any) -> "pd.DataFrame":
    import pandas as pd

    if isinstance(graph, pd.DataFrame):
        names = [str(one) for one in graph.columns]
        if sorted(names) != sorted(map(str, graph.index)):
            raise BadInput("a graph as a DataFrame has the same variables as index and as columns")
        return graph.set_axis(names, axis=1).set_axis(list(map(str, graph.index)), axis=0).loc[names]
    if hasattr(graph, "edges") and hasattr(graph, "nodes"):
        names = [str(one) for one in graph.nodes]
        found = pd.DataFrame(0.0, names, names)
        for source, target in graph.edges():
            found.loc[str(source), str(target)] = 1.0
            if not graph.is_directed():
                found.loc[str(target), str(source)] = 1.0
        return found
    raise BadInput(f"a graph is a {type(graph).__name__}: {GRAPH_FORMS}")


def _of_matrix(weights: "pd.DataFrame") -> Structure:
    try:
        values = weights.to_numpy(np.float64)
        if not np.isfinite(values).all():
            raise ValueError("a weight is not a number")
        both = bool(((values != 0) & (values != 0).T).any())
        return Structure(tuple(weights.columns), values, "cpdag" if both else "dag")
    except (TypeError, ValueError) as error:
        raise BadInput(f"a graph cannot be read: {error}") from None


def _over(graph: Structure, variables: Sequence[str]) -> Structure:
    """`graph` over `variables`; variables that `graph` does not have get no edges."""
    unknown = [name for name in graph.variables if name not in variables]
    if unknown:
        raise BadInput(f"a graph has a variable that the data do not have: {', '.join(unknown)}")
    if len(graph.variables) == len(variables):
        return graph.reordered(tuple(variables))
    place = [list(variables).index(name) for name in graph.variables]
    weights = np.zeros((len(variables),) * 2)
    weights[np.ix_(place, place)] = graph.weights
    lagged = None
    if graph.lagged is not None:
        lagged = np.zeros((graph.lags, len(variables), len(variables)))
        lagged[np.ix_(range(graph.lags), place, place)] = graph.lagged
    return Structure(tuple(variables), weights, graph.kind, lagged=lagged)
