"""A federation in this process: for tests, notebooks, benchmarks and `--engine inline`."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from .protocol import FederatedAlgorithm, Kind, Replies, Schema, Traffic, gather, traffic_of


def silo_generator(seed: int, silo: str) -> np.random.Generator:
    """Return the randomness of one silo: it depends on the seed and its name, never on the order of the silos."""
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(crc32(silo.encode()),)))


@dataclass
class InProcessFederation:
    """Silos as tables `[n_rows, n_variables]` in memory, each with a state that only `local_solve` ever sees."""

    schema: Schema
    tables: Mapping[str, NDArray[Any]]
    seed: int = 0
    _states: dict[str, Any] = field(default_factory=dict)

    def exchange(
        self, algorithm: FederatedAlgorithm[Any, Any, Any, Any], number: int, broadcast: Any
    ) -> tuple[Replies[Any], Traffic]:
        """Run the local solve of every silo in turn (see `Federation.exchange`)."""
        replies = {}
        for silo in self.schema.silos:
            if silo not in self._states:
                rng = silo_generator(self.seed, silo)
                self._states[silo] = algorithm.open_silo(self.tables[silo], self.schema, silo, rng)
            self._states[silo], replies[silo] = algorithm.local_solve(self._states[silo], broadcast)
        return gather(algorithm, replies), traffic_of(algorithm, broadcast, replies)


def federate(
    tables: Mapping[str, NDArray[Any]],
    variables: tuple[str, ...] | None = None,
    kind: Kind = "continuous",
    seed: int = 0,
) -> InProcessFederation:
    """Return the federation whose silos hold `tables`; columns are named x0, x1, ... unless `variables` says else."""
    width = next(iter(tables.values())).shape[1]
    names = variables or tuple(f"x{i}" for i in range(width))
    schema = Schema(names, {silo: len(table) for silo, table in tables.items()}, kind)
    return InProcessFederation(schema, tables, seed)
