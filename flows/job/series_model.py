"""The notes on the models of runs, and the metrics of models of time series."""

from fedbnsl.algorithms.graphs.structure import Structure
from fedbnsl.algorithms.parameters.networks import Network
from fedbnsl.algorithms.privacy.disclosure_control import GRID, MIN_COUNT
from fedbnsl.tracking.metrics import MetricValue
from fedbnsl.tracking.result import Parameters

from .job import Job

LOST = Parameters(None, "too few silos responded when the parameters were estimated")


def learned(network: Network, notes: tuple[str, ...], lost: tuple[str, ...], bytes_sent: int) -> Parameters:
    """The model `network` of a run with its notes, and a note on the silos that were `lost` when it was fitted."""
    without = f"without {', '.join(lost)}" if lost else ""
    return Parameters(network, "; ".join(part for part in (*notes, without) if part), bytes_sent)


SMALL_CELL_NOTES = {
    "blank": f"cells of fewer than {MIN_COUNT} rows count as half a row, and their rows in the largest cell beside "
    f"them; larger cells are rounded to multiples of {GRID}, or of a larger number if that hides too little",
    "keep": "its counts are exact, also those of single rows (--small-cells keep)",
}
"""for each value of the option, a note on the treatment of small cells in publications"""


def small_cells_note(job: Job) -> str:
    """The note on the treatment of small cells in published tables, and of rare levels in published regressions."""
    merged = f"; in regressions, levels of fewer than {MIN_COUNT} rows are merged with another level"
    return SMALL_CELL_NOTES[job.settings.small_cells] + merged * (job.settings.small_cells == "blank")


def dynamics(model: Parameters, structure: Structure) -> dict[str, MetricValue]:
    """The metrics of a model of time series: its lags, its spectral radius, and the errors of its forecasts.

    The errors are on the data to which the model was fitted. For numbers, the metric is the mean squared error, which
    is None without forecasts. For labels, the metric is the mean share of wrong labels.
    """
    network, forecasts = model.network, model.forecasts
    found: dict[str, MetricValue] = {
        "lags": structure.lags,
        "spectral_radius": network.spectral_radius if network else None,
        "forecast_mse": None,
        "persistence_mse": None,
    }
    if network is None or forecasts is None:
        return found
    numbers = network.numbers
    for name, errors in (("forecast", forecasts.model), ("persistence", forecasts.persistence)):
        found |= {f"{name}_mse": float(errors[numbers].mean())} if numbers.any() else {}
        found |= {f"{name}_wrong": float(errors[~numbers].mean())} if not numbers.all() else {}
    return found
