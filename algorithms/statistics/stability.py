"""Whether a linear model of time series is stable, or grows without bound."""

import numpy as np

from ..core.schema import FloatArray


def spectral_radius(weights: FloatArray, lagged: FloatArray) -> float:
    """Return the spectral radius of x_t = x_t W + Σ x_{t−i} A_i + u: below 1 it is stable, from 1 on it explodes.

    W is `weights` `[d, d]`, A `lagged` `[lags, d, d]`. It is that of the companion matrix of A_i (I − W)⁻¹ (Lütkepohl
    2005, §2.1), infinite if I − W cannot be inverted, which a W without cycles always can.
    """
    lags, d, _ = lagged.shape
    try:
        reduced = lagged @ np.linalg.inv(np.eye(d) - weights)
    except np.linalg.LinAlgError:
        return float("inf")
    companion = np.eye(lags * d, k=d)
    companion[:, :d] = reduced.reshape(lags * d, d)
    return float(abs(np.linalg.eigvals(companion)).max())
