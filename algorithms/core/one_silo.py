"""Learning from one table at hand, as a silo does by itself and a pooled baseline does with all rows.

There is nobody to send anything to: no privacy, no journal, no transport and no masks, which are a silo's service's
(`tasks/silo/service.py`). Here is only the loop of `rounds` over the algorithm's own functions.
"""

from typing import Any
from zlib import crc32

import numpy as np

from ..graphs.structure import Structure
from .promise import Charge
from .protocol import FederatedAlgorithm, Replies, Sparse, Traffic, gather, rounds
from .schema import Schema

Algorithm = FederatedAlgorithm[Any, Any, Any, Any]


def silo_generator(seed: int, silo: str) -> np.random.Generator:
    """Return the randomness of one silo: it depends on the seed and its name, never on the order of the silos."""
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(crc32(silo.encode()),)))


def learn_alone(algorithm: Algorithm, schema: Schema, table: Any) -> Structure:
    """Return what `algorithm` learns from the `table` `[n_rows, n_variables]` of the one silo of `schema`.

    Raises `ValueError` for a private algorithm: nothing would charge its noise.
    """
    if algorithm.private is not None:
        raise ValueError("a private algorithm learns through a silo's service, which charges its noise")
    *_, last = rounds(algorithm, _OneSilo(schema, table))
    return algorithm.structure(last.server)


class _OneSilo:
    """The one silo of `schema` as a federation (see `Federation`) that counts no traffic."""

    def __init__(self, schema: Schema, table: Any) -> None:
        self.schema = schema
        (self._silo,) = schema.silos
        self._table = table
        self._state: Any = None

    def exchange(
        self, algorithm: Algorithm, number: int, broadcast: Any, sparse: Sparse | None = None
    ) -> tuple[Replies[Any], Traffic]:
        """Run the local solve."""
        if number == 1:
            generator = silo_generator(0, self._silo)
            self._state = algorithm.open_silo(self._table, self.schema, self._silo, generator)
        self._state, reply = algorithm.local_solve(self._state, broadcast)
        return gather(algorithm, {self._silo: reply}), Traffic()

    def charges(self, run: str | None = None) -> dict[str, tuple[Charge, ...]]:
        """Return no charge."""
        return {self._silo: ()}
