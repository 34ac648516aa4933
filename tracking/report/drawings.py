"""The pictures of a run: the graph, the silos' own graphs, the matrices, delays and rounds."""

from typing import TYPE_CHECKING

from fedbnsl.algorithms.errors import pluralize
from fedbnsl.algorithms.graphs.edges import key_of
from fedbnsl.algorithms.parameters.survival_node import SurvivalNode

from ..pictures.curves import draw_curves
from ..pictures.delays import draw_delays
from ..pictures.picture import (
    MAX_UNROLLED_VARIABLES,
    as_png,
    as_svg,
    draw_matrices,
    draw_rounds,
    draw_structure,
)
from ..pictures.style import CHANGED, SET, Marks
from ..result import RunResult, strengths_in

if TYPE_CHECKING:
    from matplotlib.figure import Figure


MAX_SILO_PICTURES, MAX_SILO_VARIABLES = 6, 20
"""maximum number of silos whose own graphs are drawn, and maximum number of variables of these graphs"""


def marks_of(result: RunResult) -> Marks:
    """What pictures show of a run's edges and variables: strengths, doubts, knowledge, labels and targets."""
    believed = [edge for edge in result.edges if (edge.source, edge.target) not in result.doubted]
    return Marks(
        strengths_in(result),
        result.doubted,
        {key_of(edge): basis for edge in believed if (basis := result.basis_of(edge))},
        result.knowledge.required,
        result.not_identified,
        result.labelled,
        result.targets,
        CHANGED if result.found_targets else SET,
    )


def draw_result(result: RunResult, title: str = "") -> "Figure":
    """The figure of the structure of a run with its marks."""
    return draw_structure(result.compared_edges, title, marks_of(result))


def graph_svg(result: RunResult) -> str | None:
    """The graph; None for a dynamic structure of too many variables to draw over time."""
    if result.structure.lags and len(result.structure.variables) > MAX_UNROLLED_VARIABLES:
        return None
    edges = f"{pluralize(len(result.structure.variables), 'variable')} and {pluralize(len(result.edges), 'edge')}"
    return as_svg(draw_result(result), "structure", f"The graph of {edges}, which the table of edges lists")


def matrices_svg(result: RunResult) -> str:
    """The matrices of a dynamic structure, compared with those of the truth."""
    return as_svg(draw_matrices(result.compared_edges), "matrices", "Matrices of the weights within and across time")


def silo_svgs(result: RunResult) -> list[tuple[str, str]]:
    """The own graphs of the first silos, by silo, if they are small enough to be drawn side by side."""
    if len(result.structure.variables) > (MAX_UNROLLED_VARIABLES if result.structure.lags else MAX_SILO_VARIABLES):
        return []
    silos = sorted(result.local_structures)[:MAX_SILO_PICTURES]
    drawn = {one: draw_structure(result.local_edges[one]) for one in silos}
    return [(one, as_svg(drawn[one], f"silo-{k}", f"The graph of {one}")) for k, one in enumerate(silos)]


def delays_svg(result: RunResult) -> str | None:
    """The delays of a Hawkes process; None for other models, and without a delay."""
    process = result.parameters.intensities
    if not process or not process.delay:
        return None
    return as_svg(draw_delays(process, result.edges), "delays", "The delays between causes and effects")


def survival_svg(node: SurvivalNode) -> str:
    """The adjusted curves of a survival outcome."""
    return as_svg(draw_curves(node), f"survival-{node.outcome}", f"The probability of no {node.outcome} over time")


def survival_png(result: RunResult) -> bytes | None:
    """The adjusted curves of the first survival outcome with a model, with a title; None without one."""
    node = next((one.node for one in result.survival if one.node), None)
    return as_png(draw_curves(node, _title(result))) if node else None


def rounds_svg(result: RunResult) -> str:
    """The measures of the rounds."""
    return as_svg(draw_rounds(result.rounds), "rounds", "The measures of the rounds, which rounds.csv lists")


def structure_png(result: RunResult) -> bytes:
    """The picture of the structure, with a title."""
    return as_png(draw_result(result, _title(result)))


def matrices_png(result: RunResult) -> bytes | None:
    """The matrices of a dynamic structure that is also drawn over time; None for other structures."""
    if not result.structure.lags or len(result.structure.variables) > MAX_UNROLLED_VARIABLES:
        return None
    return as_png(draw_matrices(result.compared_edges, _title(result)))


def delays_png(result: RunResult) -> bytes | None:
    """The delays of a Hawkes process, with a title; None for other models, and without a delay."""
    process = result.parameters.intensities
    return as_png(draw_delays(process, result.edges, _title(result))) if process and process.delay else None


def _title(result: RunResult) -> str:
    return f"{result.algorithm} on {result.dataset}, seed {result.seed}"
