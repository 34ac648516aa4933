"""A run at one silo: its state in memory, and the part of that state which the journal keeps."""

from dataclasses import dataclass, replace
from typing import Any, get_type_hints

from numpy.typing import NDArray

from fedbnsl.algorithms.core import wire
from fedbnsl.algorithms.core.schema import Schema
from fedbnsl.algorithms.core.spec import Algorithm
from fedbnsl.algorithms.in_process import silo_generator

from .journal import Standing
from .run_terms import RunTerms


@dataclass(frozen=True)
class OpenRun:
    """A run at this silo after round `number` (0 before the first), with the state that this round left."""

    algorithm: Algorithm
    schema: Schema
    number: int
    state: Any


def open_run(terms: RunTerms, silo: str, table: NDArray[Any], standing: Standing) -> OpenRun:
    """Open the run of `terms` on `table` `[n_rows, n_variables]` after the last round that the journal has."""
    algorithm = terms.algorithm()
    state = algorithm.open_silo(table, terms.schema, silo, silo_generator(terms.seed, silo))
    if standing.state is not None:
        state = unpack_state(algorithm, state, standing.state)
    return OpenRun(algorithm, terms.schema, standing.number, state)


def pack_state(algorithm: Algorithm, state: Any) -> bytes:
    """Return the fields of a silo's state that change from round to round, as bytes."""
    return wire.encode({name: wire.encode(getattr(state, name)) for name in algorithm.kept})


def unpack_state(algorithm: Algorithm, opened: Any, packed: bytes) -> Any:
    """Return `opened` (fresh from `open_silo`) with the journalled fields put back."""
    hints = get_type_hints(algorithm.silo_type)
    kept: dict[str, bytes] = wire.decode(dict, packed)
    return replace(opened, **{name: wire.decode(hints[name], value) for name, value in kept.items()})
