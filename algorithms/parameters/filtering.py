"""The Kalman filter of a vector autoregression with empty cells (Durbin & Koopman 2012, §4.3 and §4.10).

The state has the latest rows, so that a later row also improves what is expected of the empty cells in earlier ones.
"""

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import block_diag, solve_discrete_lyapunov

from ..core.schema import FloatArray


def expected_latest_rows(
    past: FloatArray,
    intercepts: FloatArray,
    lagged: FloatArray,
    errors: FloatArray,
    means: FloatArray,
    spread: FloatArray,
) -> FloatArray:
    """The expected last L rows `[L, d]` given all cells of `past` `[n_rows, d]` that are not empty (NaN).

    The model is x_t = `intercepts` + Σ_k x_{t−k} `lagged`[k] + e_t, e_t ~ N(0, `errors`). The first L rows have the
    `means` `[d]` and the stationary covariance of the model or, if it has none, independent cells of variance `spread`
    `[d]`.
    """
    lags, d = lagged.shape[:2]
    step: FloatArray = np.eye(lags * d, k=d)
    step[:, :d] = lagged.reshape(lags * d, d)
    noise: FloatArray = block_diag(errors, np.zeros(((lags - 1) * d,) * 2))
    stationary = np.abs(np.linalg.eigvals(step)).max() < 1
    prior = solve_discrete_lyapunov(step.T, noise) if stationary else np.diag(np.tile(spread, lags))
    mean, covariance = _given(np.tile(means, lags), np.asarray(prior, np.float64), past[:lags][::-1].ravel())
    for row in past[lags:]:
        mean, covariance = mean @ step, step.T @ covariance @ step + noise
        mean[:d] += intercepts
        mean, covariance = _given(mean, covariance, np.concatenate([row, np.full((lags - 1) * d, np.nan)]))
    return np.asarray(mean.reshape(lags, d)[::-1])


def _given(mean: FloatArray, covariance: FloatArray, cells: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Mean and covariance of a Gaussian vector given those of its `cells` that are not NaN."""
    known: NDArray[np.intp] = np.flatnonzero(~np.isnan(cells))
    gain = np.linalg.pinv(covariance[np.ix_(known, known)], hermitian=True) @ covariance[known]
    return mean + (cells[known] - mean[known]) @ gain, covariance - covariance[:, known] @ gain
