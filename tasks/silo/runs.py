"""Runs at a silo: the terms that a coordinator sends, and the state of a run in memory.

`RunTerms` is the same in every round and includes everything except the broadcasts. `OpenRun` is the state of a run
between two rounds.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from fedbnsl.algorithms import registry
from fedbnsl.algorithms.core.protocol import Sparse, silo_generator, unpack_state
from fedbnsl.algorithms.core.schema import Schema
from fedbnsl.algorithms.core.spec import Algorithm
from fedbnsl.algorithms.privacy.ledger import NO_LIMIT, Budget, binding_digest
from fedbnsl.algorithms.statistics.outliers import screened
from fedbnsl.algorithms.statistics.transforms import require_row_wise, transformed
from fedbnsl.data.folder.about import NO_DECLARATION, Declared

from .journal import RunState, keyed_checksum


@dataclass(frozen=True)
class RunTerms:
    """The terms of a run, the same in every round; sent by the coordinator with each request."""

    run_id: str
    spec: bytes
    """the packed specification of the algorithm (`registry.pack`)"""
    schema: Schema
    seed: int
    budget: Budget = NO_LIMIT
    """the limit for all runs on a silo's rows together"""
    declared: Declared = NO_DECLARATION
    """the declaration of the data and of how to read them"""
    step_of: str = ""
    """the run to which this one belongs as a step before or after its rounds; both use the same rows"""
    changed_rows: int = 0
    """the minimum number of rows that change between two publications, if it is larger than the owner's"""

    @property
    def pinned_run(self) -> str:
        """The run during which a silo's rows must not change."""
        return self.step_of or self.run_id

    def algorithm(self) -> Algorithm:
        """The algorithm; raises `BadInput` for a name that is not in the registry."""
        return built(self.spec)

    def exchange_digest(self, broadcast: bytes, sparse: Sparse | None) -> bytes:
        """A digest of all that the silos of one secure sum must have been sent alike.

        Each silo's share of the noise counts on the shares of the others: a coordinator that sent one of them another
        ε, another number of tables or other scales would get its sum with too little noise.
        """
        parts = (self.spec, self.schema.in_order(), self.seed, self.declared, broadcast, sparse)
        return bytes.fromhex(binding_digest(*parts))


@lru_cache(maxsize=32)
def built(spec: bytes) -> Algorithm:
    """The algorithm of a packed specification, built once per process."""
    return registry.build(registry.unpack(spec))


@dataclass(frozen=True)
class OpenRun:
    """A run at this silo after round `number` (0 before the first), with its `state` at that point.

    `reply` is the reply of that round, and `binding` the digest of its inputs; both only while the run is in memory.
    """

    algorithm: Algorithm
    schema: Schema
    number: int
    state: Any
    binding: str = ""
    reply: Any = None


def open_run(terms: RunTerms, silo: str, table: Any, run_state: RunState, secret: bytes | None = None) -> OpenRun:
    """Open the run of `terms` on `table` `[n_rows, n_variables]` after the last round in the journal.

    With a `secret`, resamples have a seed that the coordinator does not know: if it knew the rows of as many sums as
    there are rows, it could solve for each of them.
    """
    algorithm, seed = terms.algorithm(), terms.seed
    if secret is not None and registry.unpack(terms.spec).wrappers:
        seed = int(keyed_checksum(secret, "resamples", terms.seed, silo), 16)
    generator = silo_generator(seed, silo)
    if terms.schema.transforms:
        if algorithm.private is not None:
            require_row_wise(terms.schema)
        table = transformed(table, terms.schema, silo)
    if terms.schema.imputation_model.screens:
        table = screened(table, terms.schema)
    if terms.schema.adjustment:
        table = terms.schema.adjustment.adjusted(table, terms.schema.recorded_stretches(silo))
    state = algorithm.open_silo(table, terms.schema, silo, generator)
    if run_state.state is not None:
        state = unpack_state(algorithm, state, run_state.state)
    return OpenRun(algorithm, terms.schema, run_state.number, state)
