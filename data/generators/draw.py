"""Rows drawn from a discrete network, as a federated data set."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedbnsl.algorithms.errors import BadInput
from fedbnsl.algorithms.parameters.networks import DiscreteNetwork

from ..federated import FederatedData, discrete
from .linear import silo_names
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


def dealt(whole: FederatedData, parts: Mapping[str, NDArray[np.intp]], about: Mapping[str, Any]) -> FederatedData:
    """Return the rows of `whole`, silo after silo in sorted order, dealt anew: `parts` are row numbers by silo."""
    together = np.concatenate([whole.tables[silo] for silo in whole.schema.silos])
    tables = {silo: together[rows] for silo, rows in parts.items()}
    schema = replace(whole.schema, rows={silo: len(table) for silo, table in tables.items()})
    return FederatedData(schema, tables, whole.truth, {}, {**whole.about, **about})
