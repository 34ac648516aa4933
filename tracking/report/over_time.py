"""What the report shows of dynamic structures alone: the drawing over time, the matrices, and the forecasts."""

from fedbnsl.algorithms.parameters.networks import DynamicGaussianNetwork

from ..pictures.picture import UNROLLED_UP_TO, as_svg, draw_matrices, draw_structure
from ..result import RunResult, strengths_in
from .explore import explore_section
from .page import figure, paragraph, section, table
from .words import BY_STRENGTH, NO_TRUTH, READING

DRAWING = (
    "Every column is a moment in time. An arrow from an earlier column says that the past of one variable acts on "
    "another, or on itself; an arrow at the right of the last column, that both change within one step. Those hold at "
    "every time and are drawn once."
)
MATRICES = (
    "A coloured cell in row X and column Y is the edge from X to Y: blue where Y rises with X, red where it falls. "
    "The diagonal of A is each variable's own past."
)
COMMON = (
    "Shown is one structure for all silos. How many silos have each edge in a structure of their own is said further "
    "down; those structures are in silo_structures.csv."
)
FORECASTS = (
    "How far a forecast of the next row misses, as a mean square: that of the model, from the past alone, and that of "
    "“as it was”, which says that nothing changes. Both are over the data that the model was fitted to, so on new data "
    "the model will do somewhat worse."
)


def dynamic_structure(result: RunResult) -> str:
    """Return the section with the pictures of a dynamic structure."""
    structure, truth, strengths = result.structure, result.truth, strengths_in(result)
    about = result.about.get("truth")
    against = f"Held against the truth{f' ({about})' if about else ''}." if truth else NO_TRUTH
    parts = [paragraph(against, "soft")]
    parts += [paragraph(READING[structure.kind], "soft")] if structure.kind in READING else []
    parts += [paragraph(COMMON, "soft")] if result.local_structures else []
    if len(structure.variables) <= UNROLLED_UP_TO:
        thick = BY_STRENGTH if strengths else "The stronger an edge among its kind, the thicker its line."
        parts += [paragraph(f"{DRAWING} {thick}", "soft")]
        parts += [figure(as_svg(draw_structure(structure, truth, strengths=strengths), "structure"))]
    parts += explore_section(result, opened=len(structure.variables) > UNROLLED_UP_TO)
    parts += [paragraph(MATRICES, "soft"), figure(as_svg(draw_matrices(structure, truth), "matrices"))]
    return section("Structure over time", *parts)


def forecast_sections(result: RunResult) -> list[str]:
    """Return the section on what the model says of the future: none for data that are no time series."""
    network, forecasts = result.parameters.network, result.parameters.forecasts
    if not isinstance(network, DynamicGaussianNetwork):
        return []
    metrics = result.metrics
    figures: list[tuple[str, object]] = [("Lags: how many steps back an edge may reach", network.structure.lags)]
    figures += [("Spectral radius: below 1, shocks die out", metrics.get("spectral_radius"))]
    parts = [table(("over time", ""), figures)]
    if forecasts is not None:
        errors = zip(network.structure.variables, forecasts.model, forecasts.persistence, strict=True)
        rows: list[tuple[object, ...]] = [
            ("mean over the variables", *_beside(metrics.get("forecast_mse"), metrics.get("persistence_mse"))),
            *((name, *_beside(float(model), float(same))) for name, model, same in errors),
        ]
        header = ("variable", "forecast by the model", "as it was", "model / as it was")
        parts += [paragraph(FORECASTS, "soft"), table(header, rows, scrolling=len(rows) > 12)]
    return [section("Forecasts one step ahead", *parts)]


def _beside(model: object, same: object) -> tuple[object, object, object]:
    """Return both errors and their ratio, None where that is not defined."""
    if isinstance(model, float) and isinstance(same, float) and same > 0:
        return model, same, model / same
    return model, same, None
