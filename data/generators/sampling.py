"""Sampling from models, and the random streams of generators.

`forward_sample` draws rows of a discrete network, parents before children, with one uniform number per cell;
`draw_discrete_silos` makes a federated data set of such rows. `linear_sem` draws rows of a linear structural equation
model x = Wᵀx + intercept + noise (Fassy El Fehri et al., Eq. 1; Zheng et al. 2018).
"""

from collections.abc import Iterator, Mapping
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from fedbnsl.algorithms.core.schema import FloatArray
from fedbnsl.algorithms.errors import BadInput
from fedbnsl.algorithms.graphs.dag import topological_order
from fedbnsl.algorithms.parameters.networks import Network

from ..defaults import NOISE, Noise
from ..federated import FederatedData, discrete, silo_names

Codes = NDArray[np.int64]
BLOCK_ROWS = 8192
"""number of rows that are drawn at once, which bounds memory and keeps a block's columns in the cache"""


def forward_sample(network: Network, rows: int, rng: np.random.Generator) -> Codes:
    """Draw `rows` ≥ 1 rows from `network`: level codes [n_rows, n_variables], columns in the order of its variables.

    A cell's level is the inverse of the cumulative distribution, given its parents' levels, at a uniform number. The
    first rows do not depend on the number of rows.
    """
    plan = list(_plan(network))
    blocks = []
    for start in range(0, rows, BLOCK_ROWS):
        uniforms = np.asfortranarray(rng.random((min(BLOCK_ROWS, rows - start), len(network.variables))))
        block = np.empty(uniforms.shape, dtype=np.int64, order="F")
        for v, parents, cumulative in plan:
            block[:, v] = inverse_cdf(cumulative, configuration(block[:, parents], cumulative.shape), uniforms[:, v])
        blocks.append(block)
    return np.ascontiguousarray(np.concatenate(blocks))


def configuration(codes: Codes, shape: tuple[int, ...]) -> Codes:
    """The number of the parents' configuration in each row, [n_rows]; the levels of the last parent change fastest.

    `codes` are [n_rows, n_parents]; the first n_parents of `shape` are the parents' numbers of levels.
    """
    number = np.zeros(len(codes), dtype=np.int64)
    for column, size in zip(codes.T, shape, strict=False):
        number *= size
        number += column
    return number


def inverse_cdf(cumulative: FloatArray, row: Codes, uniforms: FloatArray) -> Codes:
    """The level of each uniform number in [0, 1), [n_rows], by the given `row` of the flattened `cumulative`."""
    steps = cumulative.reshape(-1, cumulative.shape[-1]).T
    code = np.zeros(len(uniforms), dtype=np.int64)
    for step in steps[:-1]:
        code += uniforms >= step[row]
    return code


def cumulative_rows(table: FloatArray) -> FloatArray:
    """The cumulative distributions along the last axis, each ending in exactly 1.

    Published rows sum to 1 within 1e-6; without the division, a last level with probability 0 could be drawn.
    """
    sums = np.cumsum(table, axis=-1)
    return np.asarray(sums / sums[..., -1:])


def _plan(network: Network) -> Iterator[tuple[int, list[int], FloatArray]]:
    """Yield each variable after its parents: its number, the numbers of its parents, its cumulative tables."""
    place = {name: number for number, name in enumerate(network.variables)}
    for v in topological_order(network.structure.adjacency):
        name = network.variables[v]
        yield v, [place[parent] for parent in network.parents[name]], cumulative_rows(network.tables[name])


PURPOSES = {"graph": 0, "rows": 1, "surrogate": 2, "latent": 3, "dealing": 4}
"""the independent random streams of a seed, so that one choice does not change the others"""


def stream(seed: int, purpose: str) -> np.random.Generator:
    """The random stream of one of `PURPOSES`."""
    return numbered_stream(seed, PURPOSES[purpose])


def numbered_stream(seed: int, *key: int) -> np.random.Generator:
    """The random stream of a purpose, which is numbered; further numbers of the `key` are those of a silo and so on."""
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=key))


def check_counts(silos: int, rows: int, seed: int) -> None:
    """Raise `BadInput` for silos < 1, rows < 2 or seed < 0."""
    for parameter, value, least in (("silos", silos, 1), ("rows", rows, 2), ("seed", seed, 0)):
        if value < least:
            raise BadInput(f"{parameter}: {value} is less than {least}")


def draw_discrete_silos(network: Network, silos: int, rows: int, seed: int, about: Mapping[str, Any]) -> FederatedData:
    """Draw silos of `rows` rows each from `network`; the truth is its DAG.

    The rows are one stream divided into silos, so that the union of the silos does not depend on their number. Raises
    `BadInput` for silos < 1, rows < 2 or seed < 0.
    """
    check_counts(silos, rows, seed)
    codes = forward_sample(network, silos * rows, stream(seed, "rows"))
    tables = dict(zip(silo_names(silos), np.split(codes, silos), strict=True))
    return FederatedData(
        discrete(tables, network.variables, network.levels),
        tables,
        network.structure,
        {},
        {"kind": "discrete", **about},
    )


def linear_sem(
    weights: FloatArray,
    rows: int,
    rng: np.random.Generator,
    noise: Noise = NOISE,
    intercepts: FloatArray | None = None,
    deviations: FloatArray | None = None,
) -> FloatArray:
    """Draw `rows` from the linear model of the acyclic `weights` [n_variables, n_variables]: [n_rows, n_variables].

    `noise` has scale 1 and mean 0: N(0, 1), or Exponential(1) − 1 with variance 1, or Gumbel(0, 1) minus its mean with
    variance π²/6. (NOTEARS does not subtract the mean of exponential and Gumbel noise, but centres the table instead.)
    `intercepts` [n_variables] are added, and `deviations` [n_variables] multiply the noise. The first rows do not
    depend on the number of rows. Raises `BadInput` for an unknown noise, `ValueError` for weights with a cycle.
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
