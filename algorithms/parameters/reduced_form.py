"""What a dynamic network says of the next moment from the past alone: its reduced form.

x_t = c + x_t W + Σ_k x_{t−k} A_k + u_t, solved for x_t, is x_t = (c + Σ_k x_{t−k} A_k + u_t)(I − W)⁻¹ (Lütkepohl 2005,
§9).
"""

import numpy as np

from ..core.schema import FloatArray
from ..statistics import stability
from .networks import DynamicGaussianNetwork


def reduced_form(network: DynamicGaussianNetwork) -> tuple[FloatArray, FloatArray]:
    """Return the intercepts `[d]` and the lagged weights `[lags, d, d]` of the reduced form."""
    now = np.linalg.inv(np.eye(len(network.intercepts)) - network.structure.weights)
    return network.intercepts @ now, network.lagged @ now


def forecast(network: DynamicGaussianNetwork, past: FloatArray) -> FloatArray:
    """Return the mean of the row after `past` `[lags, d]`, whose last row is the latest: `[d]`."""
    intercepts, lagged = reduced_form(network)
    return np.asarray(intercepts + np.einsum("ki,kij->j", past[::-1], lagged))


def spectral_radius(network: DynamicGaussianNetwork) -> float:
    """Return the spectral radius of `network`: from 1 on its series are explosive (`statistics/stability.py`)."""
    return stability.spectral_radius(network.structure.weights, network.lagged)
