"""Sampling from a linear structural equation model: x = Wᵀx + intercept + noise.

Source: Fassy El Fehri et al., Eq. 1; Zheng et al. 2018.
"""

from typing import get_args

import numpy as np
from numpy.typing import NDArray

from fedbnsl.algorithms.errors import BadInput
from fedbnsl.algorithms.graphs.dag import topological_order

from ..defaults import NOISE, Noise

FloatArray = NDArray[np.float64]


def linear_sem(
    weights: FloatArray,
    rows: int,
    rng: np.random.Generator,
    noise: Noise = NOISE,
    intercepts: FloatArray | None = None,
    deviations: FloatArray | None = None,
) -> FloatArray:
    """Draw `rows` from the linear model of the acyclic `weights` [n_variables, n_variables]: [n_rows, n_variables].

    `noise` has scale 1 and mean 0: N(0, 1); Exponential(1) − 1, of variance 1; Gumbel(0, 1) less its mean, of variance
    π²/6 (NOTEARS draws the last two without taking off the mean, and then centres the table; we never centre one).
    `deviations` [n_variables] multiply it. The first rows stay the same when more are drawn. Raises `BadInput` for an
    unknown noise, ValueError for weights with a cycle.
    """
    variables = len(weights)
    values = draw_noise(noise, (rows, variables), rng)
    if deviations is not None:
        values *= deviations
    if intercepts is not None:
        values += intercepts
    columns = np.asfortranarray(values)
    for j in topological_order(weights != 0):
        parents = np.flatnonzero(weights[:, j])
        if parents.size:
            columns[:, j] += columns[:, parents] @ weights[parents, j]
    return np.ascontiguousarray(columns)


def draw_noise(noise: Noise, shape: tuple[int, int], rng: np.random.Generator) -> FloatArray:
    """Draw independent noise of scale 1 and mean 0. Raises `BadInput` for an unknown kind."""
    if noise == "gaussian":
        return rng.standard_normal(shape)
    if noise == "exponential":
        return rng.standard_exponential(shape) - 1.0
    if noise == "gumbel":
        return rng.gumbel(size=shape) - np.euler_gamma
    raise BadInput(f"noise: {noise!r} is not one of {', '.join(get_args(Noise))}")
