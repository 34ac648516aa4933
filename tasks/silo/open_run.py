"""A run at one silo, with its state in memory."""

from dataclasses import dataclass
from typing import Any

from fedbnsl.algorithms.core.kept import unpack_state
from fedbnsl.algorithms.core.one_silo import silo_generator
from fedbnsl.algorithms.core.schema import Schema
from fedbnsl.algorithms.core.spec import Algorithm

from .journal import Standing
from .run_terms import RunTerms


@dataclass(frozen=True)
class OpenRun:
    """A run at this silo after round `number` (0 before the first), with the state that this round left.

    `reply` is what it answered in that round, to what `binding` stands for, as long as the run has been in memory.
    """

    algorithm: Algorithm
    schema: Schema
    number: int
    state: Any
    binding: str = ""
    reply: Any = None


def open_run(terms: RunTerms, silo: str, table: Any, standing: Standing) -> OpenRun:
    """Open the run of `terms` on `table` `[n_rows, n_variables]` after the last round that the journal has."""
    algorithm = terms.algorithm()
    state = algorithm.open_silo(table, terms.schema, silo, silo_generator(terms.seed, silo))
    if standing.state is not None:
        state = unpack_state(algorithm, state, standing.state)
    return OpenRun(algorithm, terms.schema, standing.number, state)
