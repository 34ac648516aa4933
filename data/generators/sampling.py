"""Forward sampling of a discrete network: parents before children, one uniform number a cell."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from fedbnsl.algorithms.core.schema import FloatArray
from fedbnsl.algorithms.graphs.dag import topological_order
from fedbnsl.algorithms.parameters.networks import DiscreteNetwork

Codes = NDArray[np.int64]
BLOCK = 8192
"""rows drawn at once, which bounds memory and keeps a block's columns in the cache"""


def forward_sample(network: DiscreteNetwork, rows: int, rng: np.random.Generator) -> Codes:
    """Draw `rows` ≥ 1 rows from `network`: level codes [n_rows, n_variables], columns in the order of its variables.

    A cell's level is the inverse of the cumulative distribution, given its parents' levels, at a uniform number. The
    first rows stay the same when more are drawn.
    """
    plan = list(_plan(network))
    blocks = []
    for start in range(0, rows, BLOCK):
        uniforms = np.asfortranarray(rng.random((min(BLOCK, rows - start), len(network.variables))))
        block = np.empty(uniforms.shape, dtype=np.int64, order="F")
        for v, parents, cumulative in plan:
            block[:, v] = inverse_cdf(cumulative, configuration(block[:, parents], cumulative.shape), uniforms[:, v])
        blocks.append(block)
    return np.ascontiguousarray(np.concatenate(blocks))


def configuration(codes: Codes, shape: tuple[int, ...]) -> Codes:
    """Return each row's number of its parents' configuration, [n_rows], the last parent counting fastest.

    `codes` are [n_rows, n_parents]; the first n_parents of `shape` are the parents' numbers of levels.
    """
    number = np.zeros(len(codes), dtype=np.int64)
    for column, size in zip(codes.T, shape, strict=False):
        number *= size
        number += column
    return number


def inverse_cdf(cumulative: FloatArray, row: Codes, uniforms: FloatArray) -> Codes:
    """Return the level each uniform number in [0, 1) falls on, [n_rows], by that row of the flattened `cumulative`."""
    steps = cumulative.reshape(-1, cumulative.shape[-1]).T
    code = np.zeros(len(uniforms), dtype=np.int64)
    for step in steps[:-1]:
        code += uniforms >= step[row]
    return code


def cumulated(table: FloatArray) -> FloatArray:
    """Return the cumulative distributions along the last axis, each ending in exactly 1.

    Published rows sum to 1 within 1e-6; without the division a last level of probability 0 could be drawn.
    """
    sums = np.cumsum(table, axis=-1)
    return np.asarray(sums / sums[..., -1:])


def _plan(network: DiscreteNetwork) -> Iterator[tuple[int, list[int], FloatArray]]:
    """Yield each variable after its parents: its number, theirs, its cumulative tables."""
    place = {name: number for number, name in enumerate(network.variables)}
    for v in topological_order(network.structure.adjacency):
        name = network.variables[v]
        yield v, [place[parent] for parent in network.parents[name]], cumulated(network.tables[name])
