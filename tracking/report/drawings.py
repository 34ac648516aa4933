"""The drawings of the report: the graph, the averaged network and the silos' own graphs, the matrices, the rounds."""

from typing import TYPE_CHECKING, Any

from fedbnsl.algorithms.graphs.edges import classify, weighted

from ..pictures.delays import draw_delays
from ..pictures.drawing import CHANGED, SET
from ..pictures.picture import (
    MAX_DRAWN_VARIABLES,
    MAX_UNROLLED_VARIABLES,
    as_svg,
    draw_matrices,
    draw_rounds,
    draw_structure,
)
from ..result import RunResult, strengths_in

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MAX_SILO_PICTURES, MAX_SILO_VARIABLES = 6, 20
"""maximum number of silos whose own graphs are drawn, and maximum number of variables of these graphs"""


def draw_result(result: RunResult, title: str = "") -> "Figure":
    """The figure of the structure of a run, with strengths, knowledge, labels and targets as marks."""
    return draw_structure(
        result.structure,
        result.truth,
        title,
        strengths_in(result),
        result.knowledge.required,
        result.labelled,
        result.not_identified,
        result.targets,
        CHANGED if result.found_targets else SET,
    )


def pictures(result: RunResult) -> dict[str, Any]:
    """By name, the pictures of the report as SVG (None if there is no such picture), and two facts about them."""
    structure, truth, strengths = result.structure, result.truth, strengths_in(result)
    found: dict[str, Any] = {"drawing": None, "matrices": None}
    variables = len(structure.variables)
    if structure.lags:
        if variables <= MAX_UNROLLED_VARIABLES:
            found["drawing"] = as_svg(draw_structure(structure, truth, strengths=strengths), "structure")
        found["matrices"] = as_svg(draw_matrices(structure, truth), "matrices")
    else:
        found["drawing"] = as_svg(draw_result(result), "structure")
    found["averaged"] = _averaged_picture(result)
    found["silos"] = _silo_pictures(result)
    found["large"] = variables > MAX_DRAWN_VARIABLES
    found["weighted"] = weighted(structure)
    process = result.parameters.intensities
    found["delays"] = as_svg(draw_delays(process, structure), "delays") if process and process.delay else None
    found["rounds"] = as_svg(draw_rounds(result.rounds), "rounds") if len(result.rounds) > 1 else None
    return found


def _averaged_picture(result: RunResult) -> str | None:
    """The averaged network; None if it equals the learned graph, has lags or has too many variables to draw."""
    structure, found = result.structure, result.confidence
    if not found or structure.lags or len(structure.variables) > MAX_DRAWN_VARIABLES:
        return None
    pairs = [
        {(one.source, one.target, one.text) for one in classify(graph, None)} for graph in (structure, found.averaged)
    ]
    if pairs[0] == pairs[1]:
        return None
    drawn = draw_structure(found.averaged, result.truth, strengths=found.strengths, labels=result.labelled)
    return as_svg(drawn, "averaged")


def _silo_pictures(result: RunResult) -> list[tuple[str, str]]:
    """The own graphs of the first silos, by silo, if they are small enough to be drawn side by side."""
    if len(result.structure.variables) > (MAX_UNROLLED_VARIABLES if result.structure.lags else MAX_SILO_VARIABLES):
        return []
    silos = sorted(result.local_structures)[:MAX_SILO_PICTURES]
    return [(one, as_svg(draw_structure(result.local_structures[one]), f"silo-{k}")) for k, one in enumerate(silos)]
