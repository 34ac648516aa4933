"""Runs at a silo: the terms that a coordinator sends, and the state of a run in memory.

`RunTerms` has what the coordinator sends unchanged in every round. Broadcasts and requests for secure sums are
separate. `OpenRun` is the state of a run between two rounds.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedbnsl.algorithms import registry
from fedbnsl.algorithms.core import wire
from fedbnsl.algorithms.core.protocol import Algorithm, Sparse, silo_generator, unpack_state
from fedbnsl.algorithms.core.schema import Schema
from fedbnsl.algorithms.core.spec import AlgorithmSpec
from fedbnsl.algorithms.errors import BadInput
from fedbnsl.algorithms.privacy.ledger import NO_LIMIT, Budget, binding_digest
from fedbnsl.algorithms.statistics.adjusted_passes import adjusted_series
from fedbnsl.algorithms.statistics.design_effect import ClusteredRows
from fedbnsl.algorithms.statistics.outliers import screened
from fedbnsl.algorithms.statistics.transforms import require_row_wise, transformed
from fedbnsl.data.folder.about import NO_DECLARATION, Declared

from .journal import RunState


@dataclass(frozen=True, eq=False)
class RunTerms:
    """The terms of a run, which the coordinator sends with each request; they do not change from round to round.

    They are compared by identity, so that `terms_digest` can cache the digest of an object. For an equal copy, the
    digest is computed again, which costs only time.
    """

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
    """if this run is a step before or after the rounds of another run, the id of that run; both use the same rows"""
    changed_rows: int = 0
    """without an ε: the minimum number of rows that have changed since an earlier publication, if any row has; the
    larger of this number and the owner's minimum applies"""

    def __post_init__(self) -> None:
        """Raise `BadInput` for the name of a run that cannot be a name."""
        require_run_name(self.run_id)
        if self.step_of:
            require_run_name(self.step_of)

    @cached_property
    def packed(self) -> bytes:
        """The terms as bytes, encoded once for all requests of a run."""
        return wire.encode(self)

    @property
    def pinned_run(self) -> str:
        """The run during which a silo's rows must not change."""
        return self.step_of or self.run_id

    @property
    def part(self) -> str:
        """The part of the pinned run: "round", or the name of an exchange before or after its rounds."""
        return self.run_id.removeprefix(self.pinned_run).removeprefix("-") or "round"

    @cached_property
    def spec_value(self) -> AlgorithmSpec:
        """The specification of the algorithm; raises `BadInput` for a name that is not in the registry."""
        return registry.unpack(self.spec)

    def algorithm(self) -> Algorithm:
        """The algorithm; raises `BadInput` for a name that is not in the registry."""
        return built(self.spec)

    def exchange_digest(self, broadcast: bytes, sparse: Sparse | None) -> bytes:
        """A digest of the content that all silos of one secure sum must have received.

        Each silo's share of the noise suffices only together with the shares of the others. Without this digest, a
        coordinator could send one silo another ε, another number of tables or other scales, and get a sum with too
        little noise.
        """
        return bytes.fromhex(binding_digest(terms_digest(self), broadcast, sparse))


MAX_NAME_LENGTH = 200
"""maximum number of characters in the name of a run"""


def require_run_name(name: str) -> None:
    """Raise `BadInput` unless `name` has from 1 to `MAX_NAME_LENGTH` printable characters.

    A silo keeps records under the names that coordinators choose.
    """
    if not (0 < len(name) <= MAX_NAME_LENGTH and name.isprintable()):
        raise BadInput(f"the name of a run has 1 to {MAX_NAME_LENGTH} printable characters")


@lru_cache(maxsize=8)
def terms_digest(terms: RunTerms) -> str:
    """A digest of the terms that determine an answer; cached, because it takes milliseconds.

    It is not a field of the terms: the coordinator sends the terms, and could send a false digest.
    """
    return binding_digest(terms.spec, terms.schema.in_order(), terms.seed, terms.declared)


@lru_cache(maxsize=32)
def built(spec: bytes) -> Algorithm:
    """The algorithm of a packed specification, built once per process."""
    return registry.build(registry.unpack(spec))


@dataclass(frozen=True)
class OpenRun:
    """A run at this silo after round `number` (0 before the first), with its `state` at that point.

    `reply` is the reply of that round, and `binding` is the digest of its inputs. Both are set only after a round that
    was solved in this process.
    """

    algorithm: Algorithm
    schema: Schema
    number: int
    state: Any
    binding: str = ""
    reply: Any = None


def open_run(
    terms: RunTerms,
    silo: str,
    table: Any,
    run_state: RunState,
    seed: int | None = None,
    clusters: NDArray[np.int64] | None = None,
) -> OpenRun:
    """Open the run of `terms` on `table` `[n_rows, n_variables]`, in its state after the last round in the journal.

    With a `seed`, it replaces that of the terms. `clusters` `[n_rows]` are the clusters of the rows, for algorithms
    that take them.
    """
    algorithm = terms.algorithm()
    generator = silo_generator(terms.seed if seed is None else seed, silo)
    if terms.schema.transforms:
        if algorithm.private is not None:
            require_row_wise(terms.schema)
        table = transformed(table, terms.schema, silo)
    if terms.schema.imputation_model.screens:
        table = screened(table, terms.schema)
    if terms.schema.adjustment:
        labels = [at for at, name in enumerate(terms.schema.variables) if name in terms.schema.levels]
        table = adjusted_series(table, terms.schema.adjustment, terms.schema.recorded_stretches(silo), labels)
    if clusters is not None:
        table = ClusteredRows(table, clusters)
    state = algorithm.open_silo(table, terms.schema, silo, generator)
    if run_state.state is not None:
        state = unpack_state(algorithm, state, run_state.state)
    return OpenRun(algorithm, terms.schema, run_state.number, state)
