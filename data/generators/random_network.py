"""Random discrete networks: numbers of levels and Dirichlet tables for a given DAG (Wang, Ma & Wang 2023, §7.4)."""

import math

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from fedbnsl.algorithms.core.schema import FloatArray
from fedbnsl.algorithms.errors import BadInput
from fedbnsl.algorithms.parameters.networks import Network

CONCENTRATIONS = (0.1, 1.0)
"""range from which each row's Dirichlet concentration is drawn uniformly, as in the program of Wang, Ma & Wang 2023"""
MAX_TABLE_SIZE = 10**7
"""maximum number of probabilities in a table"""


def random_network(
    dag: NDArray[np.bool_],
    variables: tuple[str, ...],
    levels: tuple[int, int],
    concentration: float | None,
    rng: np.random.Generator,
) -> Network:
    """Draw levels and tables for `dag` [n_variables, n_variables]; `levels` are the minimum and maximum of a variable.

    Every row of a table is drawn from Dirichlet(a, ..., a) with a = `concentration`. If `concentration` is None, a is
    drawn from U(0.1, 1) separately for each row. (Wang, Ma & Wang 2023 only mention "Dirichlet-multinomial"; the
    numbers come from their program.) Raises `BadInput` for a variable whose table would not fit into memory.
    """
    counts = random_levels(dag, levels, rng)
    labels = {name: level_names(int(count)) for name, count in zip(variables, counts, strict=True)}
    parents: dict[str, tuple[str, ...]] = {}
    tables: dict[str, FloatArray] = {}
    for v, name in enumerate(variables):
        given = np.flatnonzero(dag[:, v])
        shape = (*(int(counts[parent]) for parent in given), int(counts[v]))
        if math.prod(shape) > MAX_TABLE_SIZE:
            raise BadInput(
                f"levels: {name} has {len(given)} parents, so a table of {math.prod(shape)} numbers; "
                "give fewer levels or a smaller degree"
            )
        parents[name] = tuple(variables[parent] for parent in given)
        tables[name] = dirichlet_rows(math.prod(shape[:-1]), shape[-1], concentration, rng).reshape(shape)
    return Network(variables, labels, parents, tables)


def random_levels(dag: NDArray[np.bool_], levels: tuple[int, int], rng: np.random.Generator) -> NDArray[np.int64]:
    """Draw each variable's number of levels, [n_variables], between (fewest, most).

    The distribution is a rounded normal around the middle, truncated at both ends. Its deviation is half the width,
    halved for each parent of the variable's child with the most parents. So tables with many parents stay small, as in
    the program of Wang, Ma & Wang 2023.
    """
    fewest, most = levels
    if fewest == most:
        return np.full(len(dag), fewest, dtype=np.int64)
    parents_of_children = np.where(dag, dag.sum(axis=0), 0).max(axis=1)
    deviation = (most - fewest) / 2 / np.exp2(parents_of_children)
    middle = (fewest + most) / 2
    low, high = ndtr((fewest - middle) / deviation), ndtr((most - middle) / deviation)
    drawn = middle + deviation * ndtri(low + (high - low) * rng.random(len(dag)))
    counts: NDArray[np.int64] = np.clip(np.rint(drawn), fewest, most).astype(np.int64)
    return counts


def dirichlet_rows(rows: int, levels: int, concentration: float | None, rng: np.random.Generator) -> FloatArray:
    """Draw distributions over `levels`, [rows, levels], from Dirichlet(a, ..., a); see `random_network` for a."""
    concentrations = rng.uniform(*CONCENTRATIONS, rows) if concentration is None else np.full(rows, concentration)
    return np.array([rng.dirichlet(np.full(levels, one)) for one in concentrations])


def level_names(count: int) -> tuple[str, ...]:
    """The labels s0, s1, ..., padded with zeros: words, so that a plain CSV is recognised as discrete."""
    return tuple(f"s{number:0{len(str(count - 1))}d}" for number in range(count))
