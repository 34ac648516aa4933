"""Random DAGs (Erdős-Rényi, scale-free), their weights, and names of variables."""

from dataclasses import dataclass
from typing import Annotated, ClassVar, get_args

import numpy as np
from annotated_types import Ge
from numpy.typing import NDArray

from fedbnsl.algorithms.core.schema import FloatArray
from fedbnsl.algorithms.core.settings import Count, Seed, Settings
from fedbnsl.algorithms.errors import BadInput

from ..defaults import GRAPH, Graph

WEIGHTS = (0.5, 2.0)
"""range of the absolute weights, which are drawn uniformly (Fassy El Fehri et al., B.1.1)"""


@dataclass(frozen=True)
class RandomGraphSettings(Settings):
    """The settings of data on a random DAG: `silos` tables of `rows` rows, over a DAG with `edges` expected edges.

    By default there are as many expected edges as variables. Raises `BadInput` naming an invalid value.
    """

    called: ClassVar[str] = ""
    variables: Annotated[int, Ge(2)]
    silos: Count
    rows: Annotated[int, Ge(2)]
    seed: Seed
    edges: int | None = None

    @property
    def expected_edges(self) -> int:
        """The expected number of edges; by default the number of variables, or the maximum if that is less."""
        return min(self.variables, max_edges(self.variables)) if self.edges is None else self.edges


def random_dag(variables: int, edges: int, rng: np.random.Generator, graph: Graph = GRAPH) -> NDArray[np.bool_]:
    """Draw a DAG `[d, d]`, whose entry [i, j] is the edge i → j, in a random causal order.

    "ER" (Erdős-Rényi): every pair is connected with probability edges / (d(d−1)/2), so `edges` edges are expected. "SF"
    (scale-free, Barabási-Albert): each variable in turn takes round(edges/d) earlier variables as children, with
    probability proportional to their number of parents + 1 (Zheng et al. 2018): m = round(edges/d), at least 1 if
    `edges` is not 0, gives exactly m·d − m(m+1)/2 edges. Raises `BadInput` for too many edges.
    """
    check_graph(variables, edges, graph)
    if graph == "ER":
        probability = edges / max_edges(variables)
        lower = np.tril(rng.random((variables, variables)) < probability, k=-1)
    else:
        lower = _scale_free(variables, max(round(edges / variables), min(edges, 1)), rng)
    order = rng.permutation(variables)
    return lower[np.ix_(order, order)]


def random_weights(dag: NDArray[np.bool_], rng: np.random.Generator) -> FloatArray:
    """Draw a weight for every edge of `dag`, uniformly from [−2, −0.5] ∪ [0.5, 2] (Fassy El Fehri et al., B.1.1).

    The result `[d, d]` is the W of x = Wᵀx + noise.
    """
    size = rng.uniform(*WEIGHTS, dag.shape)
    sign = rng.choice([-1.0, 1.0], dag.shape)
    return np.where(dag, sign * size, 0.0)


def max_edges(variables: int) -> int:
    """The number of edges of a complete DAG."""
    return variables * (variables - 1) // 2


def check_graph(variables: int, edges: int, graph: Graph) -> None:
    """Raise `BadInput` for an unknown kind of graph, or a number of edges that it cannot have."""
    if graph not in get_args(Graph):
        raise BadInput(f"graph: {graph!r} is not one of {', '.join(get_args(Graph))}")
    if variables < 2:
        raise BadInput(f"variables: {variables} is less than 2")
    if not 0 <= edges <= max_edges(variables):
        raise BadInput(
            f"edges: {edges} is not between 0 and {max_edges(variables)}, the maximum of {variables} variables"
        )


def variable_names(count: int) -> tuple[str, ...]:
    """The names x1, x2, ..., padded with zeros so that they sort by number."""
    return tuple(f"x{number:0{len(str(count))}d}" for number in range(1, count + 1))


def _scale_free(variables: int, links: int, rng: np.random.Generator) -> NDArray[np.bool_]:
    lower = np.zeros((variables, variables), dtype=bool)
    for node in range(1, variables):
        popular = lower[:, :node].sum(axis=0) + 1.0
        chosen = rng.choice(node, size=min(links, node), replace=False, p=popular / popular.sum())
        lower[node, chosen] = True
    return lower
