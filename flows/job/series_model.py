"""The metrics of models of time series: lags, spectral radius and forecast errors."""

from fedbnsl.algorithms.graphs.structure import Structure
from fedbnsl.tracking.metrics import MetricValue
from fedbnsl.tracking.result import Parameters


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
