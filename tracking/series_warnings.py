"""Warnings on models of time series: models that are not stable, levels far from zero, and forecasts without use."""

import numpy as np

from fedbnsl.algorithms.graphs.structure import Structure
from fedbnsl.algorithms.statistics.moments import spectral_radius

from .result import RunResult


def radius_of(structure: Structure) -> float | None:
    """The spectral radius of a dynamic structure; None for other structures."""
    return None if structure.lagged is None else spectral_radius(structure.weights, structure.lagged)


def stability_warning(result: RunResult) -> str | None:
    """A warning if the model of time series, or a silo's own, is not stable; None otherwise."""
    radius = result.metrics.get("spectral_radius")
    if isinstance(radius, float) and radius >= 1:
        return (
            f"Unstable: the spectral radius is {radius:.3f}, not below 1, so long-range forecasts grow without bound."
        )
    own = {silo: radius_of(one) for silo, one in sorted(result.local_structures.items())}
    unstable = [silo for silo, radius in own.items() if radius is not None and radius >= 1]
    return (
        f"Unstable: the spectral radius of the silo's own model is not below 1 at {', '.join(unstable)}."
        if unstable
        else None
    )


MAX_LEVEL_DEVIATIONS = 3.0
"""number of standard deviations from which on a mean counts as far from zero"""
CENTRING_LEARNERS = ("var",)
"""the learners of time series that subtract the mean of all rows"""


def level_warning(result: RunResult) -> str | None:
    """A warning if means far from zero can appear as effects in a model of time series; None otherwise."""
    network = result.parameters.network
    subtracted = result.algorithm in CENTRING_LEARNERS or any(
        result.params.get(name) for name in ("center", "center_series")
    )
    if subtracted or network is None or not network.lags or not network.linear:
        return None
    ratios = np.abs(network.means) / np.sqrt(np.maximum(network.spreads, np.finfo(float).tiny))
    most = int(np.argmax(ratios))
    if ratios[most] < MAX_LEVEL_DEVIATIONS:
        return None
    return (
        f"Not centred: the mean of {network.structure.variables[most]} is {ratios[most]:.3g} standard deviations from "
        "zero. As requested, the learner did not centre the rows, so constant levels can appear as effects."
    )


def forecast_warning(result: RunResult) -> str | None:
    """A warning if the model of time series forecasts no better than persistence; None otherwise."""
    model, same = result.metrics.get("forecast_mse"), result.metrics.get("persistence_mse")
    if not isinstance(model, float) or not isinstance(same, float) or model < same:
        return None
    return "The model predicts the next row no better than the persistence forecast: its lagged edges explain nothing."


def series_warnings(result: RunResult) -> list[str]:
    """The warnings on a model of time series; empty for other data."""
    warnings = (stability_warning(result), level_warning(result), forecast_warning(result))
    return [one for one in warnings if one is not None]
