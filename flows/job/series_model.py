"""The notes on the models of runs, and the exchanges that fit models of time series after the rounds."""

from dataclasses import replace

from fedbnsl.algorithms.core.spec import Algorithm, AlgorithmSpec
from fedbnsl.algorithms.graphs.cpdag import Extension
from fedbnsl.algorithms.graphs.structure import Structure, unrolled_names
from fedbnsl.algorithms.parameters import forecast_errors, mixed_families, regressions
from fedbnsl.algorithms.parameters.networks import Network
from fedbnsl.algorithms.privacy.disclosure_control import GRID, MIN_COUNT
from fedbnsl.tracking.result import Metric, Parameters

from .job import ExchangeResult, Job, Session, extra_exchange

LOST = Parameters(None, "too few silos responded when the parameters were estimated")


def learned(network: Network, notes: tuple[str, ...], found: ExchangeResult) -> Parameters:
    """The model `network` of a run with its notes, and a note on the silos that were lost when it was fitted."""
    lost = f"without {', '.join(found.last.lost)}" if found.last.lost else ""
    return Parameters(network, "; ".join(part for part in (*notes, lost) if part), found.bytes_sent)


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


def _name_twice(structure: Structure) -> str:
    """The reason for no model if a variable has the name of another variable at an earlier time; otherwise empty."""
    names = unrolled_names(structure.variables, structure.lags)
    duplicate = next((name for name in names if names.count(name) > 1), None)
    return f"a variable has the name {duplicate}, which another variable has at an earlier time" if duplicate else ""


def labelled_series_model(
    job: Job, session: Session, algorithm: Algorithm, structure: Structure, chosen: Extension
) -> Parameters:
    """The model of series with labels for the DAG that was `chosen`, with the errors of its forecasts."""
    if reason := _name_twice(structure):
        return Parameters(None, reason)
    assert chosen.dag is not None
    masked, ess = algorithm.needs_secure_sum, job.settings.smoothing
    spec = AlgorithmSpec("lagged-families", mixed_families.MixedFamilies(ess, masked, structure.lags))
    start = mixed_families.start(session.schema, chosen.dag, structure.lagged)
    found = extra_exchange(job, session, spec, "parameters", start)
    if found.lost:
        return LOST
    server: mixed_families.Server = found.last.server
    blank = job.settings.small_cells == "blank"
    fitted = mixed_families.network(server, ess, lags=structure.lags, blank=blank)
    windows = mixed_families.contributing_rows(server)
    summary = f"regressions, tables and logistic regressions on the same and earlier times, at {windows:,} times"
    notes = (summary, small_cells_note(job), job.adjustment.description, chosen.how)
    spec = AlgorithmSpec("forecast-errors", forecast_errors.ForecastErrors(masked, job.center_series))
    checked = extra_exchange(job, session, spec, "forecasts", forecast_errors.start_forecasts(session.schema, fitted))
    errors = None if checked.lost else forecast_errors.forecasts(checked.last.server, fitted)
    model = learned(replace(fitted, adjustment=job.adjustment), notes, found)
    return replace(model, forecasts=errors, bytes_sent=found.bytes_sent + checked.bytes_sent)


def series_model(
    job: Job, session: Session, algorithm: Algorithm, structure: Structure, chosen: Extension
) -> Parameters:
    """The model of series of numbers for the DAG that was `chosen`, with the errors of its forecasts."""
    if reason := _name_twice(structure):
        return Parameters(None, reason)
    assert chosen.dag is not None
    masked = algorithm.needs_secure_sum
    settings = regressions.Regressions(job.center_series, masked, structure.lags)
    start = regressions.start(session.schema, chosen.dag, structure.lagged)
    found = extra_exchange(job, session, AlgorithmSpec("lagged-regressions", settings), "parameters", start)
    if found.lost:
        return LOST
    server = found.last.server
    windows = regressions.contributing_rows(server)
    fitted = f"each variable regressed on its parents at the same and at earlier times, at {windows:,} times"
    network = regressions.network(server, settings)
    model = learned(
        replace(network, adjustment=job.adjustment), (fitted, job.adjustment.description, chosen.how), found
    )
    return replace(model, forecasts=regressions.forecasts(server, settings, network))


def dynamics(model: Parameters, structure: Structure) -> dict[str, Metric]:
    """The metrics of a model of time series: its lags, its spectral radius, and the errors of its forecasts.

    The errors are on the data to which the model was fitted. For numbers, the metric is the mean squared error, which
    is None without forecasts. For labels, the metric is the mean share of wrong labels.
    """
    network, forecasts = model.network, model.forecasts
    found: dict[str, Metric] = {
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
