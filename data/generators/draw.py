"""Rows drawn from a discrete network, as a federated data set."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from fedbnsl.algorithms.errors import BadInput
from fedbnsl.algorithms.parameters.networks import DiscreteNetwork

from ..federated import FederatedData, discrete, silo_names
from .sampling import forward_sample

PURPOSES = {"graph": 0, "rows": 1, "surrogate": 2, "latent": 3, "dealing": 4}
"""what the random streams of a seed are for, so that one choice leaves the others as they were"""


def stream(seed: int, purpose: str) -> np.random.Generator:
    """Return the random stream of one of `PURPOSES`."""
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(PURPOSES[purpose],)))


def check_counts(silos: int, rows: int, seed: int) -> None:
    """Raise `BadInput` for silos < 1, rows < 2 or seed < 0."""
    for parameter, value, least in (("silos", silos, 1), ("rows", rows, 2), ("seed", seed, 0)):
        if value < least:
            raise BadInput(f"{parameter}: {value} is less than {least}")


def draw(network: DiscreteNetwork, silos: int, rows: int, seed: int, about: Mapping[str, Any]) -> FederatedData:
    """Draw silos of `rows` rows each from `network`; the truth is its DAG.

    The rows are one stream cut into silos: all silos together hold the same rows whatever their number. Raises
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
