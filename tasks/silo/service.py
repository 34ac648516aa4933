"""What runs where a silo's rows are: open the table once, solve a round, journal it, reply.

These functions are called by name on the Dask worker that hosts the silo. Nothing but the schema part and encoded
replies leaves it; the path of the rows is known to this process alone (`worker.py` sets it from the owner's command).
"""

import contextlib
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, get_type_hints

from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from fedbnsl.algorithms import registry
from fedbnsl.algorithms.core import wire
from fedbnsl.algorithms.core.promise import Charge
from fedbnsl.algorithms.core.protocol import FederatedAlgorithm, Sparse
from fedbnsl.algorithms.core.schema import Schema
from fedbnsl.algorithms.errors import BadInput
from fedbnsl.algorithms.in_process import silo_generator
from fedbnsl.algorithms.privacy.ledger import Budget
from fedbnsl.algorithms.privacy.private import Spender, private_solve
from fedbnsl.algorithms.secure import masked
from fedbnsl.algorithms.secure.masks import Ring
from fedbnsl.algorithms.secure.session import Aborted

from . import secure_sums as secure_silo
from .journal import Journal, journal_path
from .ledger import FileLedger, ledger_path
from .rows import Described, describe_rows, read_rows
from .secure_sums import Question


class SiloFailed(Exception):  # noqa: N818 - reported by the silo, not a programming error of the caller
    """A silo could not solve its round: its name, and what went wrong there (no traceback, which could show rows)."""


@dataclass(frozen=True)
class Call:
    """All a silo needs to know of a run besides the broadcast; the same in every round."""

    run_id: str
    spec: bytes
    """the packed specification of the algorithm"""
    schema: bytes
    seed: int
    budget: float = math.inf
    """the most ε that all runs on a silo's rows may spend together"""


@dataclass
class _Running:
    """One run at this silo, in memory."""

    algorithm: FederatedAlgorithm[Any, Any, Any, Any]
    schema: Schema
    number: int
    state: Any


HOSTED: dict[str, Path] = {}
"""silo -> the file of its rows, or a folder whose silos are pooled"""
BUDGETS: dict[str, float] = {}
"""silo -> the most ε that its owner lets all runs spend together, whatever a coordinator says"""
_running: dict[tuple[str, str], _Running] = {}
_tables: dict[tuple[Any, ...], NDArray[Any]] = {}
"""the table of a silo, by what of the schema its columns and codes depend on"""
_journals: dict[str, Journal] = {}


def describe(silo: str, about: Mapping[str, Any] | None = None) -> Described:
    """Return the public part of `silo`: its variables and number of rows. Raises `BadInput` for unreadable rows.

    `about` is what the coordinator knows of the kind of data and their levels.
    """
    return describe_rows(silo, _source(silo), about)


def solve(silo: str, call: Call, number: int, broadcast: bytes) -> bytes:
    """Return the reply of `silo` to `broadcast` in round `number`: solved now, or what it already answered.

    Raises `BadInput` for rows that cannot be used, `SiloFailed` for anything else that goes wrong here.
    """
    try:
        with threadpool_limits(1):
            return _solve(silo, call, number, broadcast)
    except (BadInput, SiloFailed):
        raise
    except Exception as error:
        raise SiloFailed(f"silo {silo}, round {number}: {type(error).__name__}: {error}") from None


def finish(silo: str, run_id: str) -> None:
    """Forget a finished run: its state in memory and its journal. The ledger stays."""
    _running.pop((run_id, silo), None)
    secure_silo.forget(silo, run_id)
    _journal(silo).close(run_id)


def charges(silo: str, run_id: str | None) -> tuple[Charge, ...]:
    """Return what the ledger of `silo` says of a run, or of all; the keys of the noise stay here."""
    return tuple(replace(charge, key=b"") for charge in _ledger(silo).charges(run_id))


def secure_answer(silo: str, call: Call, number: int, question: Question) -> bytes:
    """Return the answer of `silo` to one question of the secure sum of round `number`.

    Raises `BadInput` as `solve` does and where a number does not fit the sum, `Aborted` where it would not be safe to
    answer, `SiloFailed` for anything else that goes wrong here.
    """
    try:
        with threadpool_limits(1):
            algorithm = registry.build(registry.unpack(call.spec))
            schema = wire.decode(Schema, call.schema)

            def vector() -> Ring:
                if not algorithm.whole_numbers:
                    masked.check_range(_table(silo, schema), schema, silo)
                reply = wire.decode(algorithm.reply_type, _solve(silo, call, number, question.broadcast))
                sparse = wire.decode(Sparse, question.sparse) if question.sparse else None
                return masked.to_ring(algorithm, reply, sparse, len(schema.rows))

            return secure_silo.answer_question(silo, call.run_id, number, schema, question, vector, _journal(silo))
    except (BadInput, Aborted, SiloFailed):
        raise
    except Exception as error:
        raise SiloFailed(f"silo {silo}, round {number}: {type(error).__name__}: {error}") from None


def _solve(silo: str, call: Call, number: int, broadcast: bytes) -> bytes:
    journal = _journal(silo)
    answered = journal.reply(call.run_id, number)
    if answered is not None:
        return answered
    running = _running.get((call.run_id, silo))
    if running is None or running.number != number - 1:
        running = _open(silo, call, journal)
    if running.number != number - 1:
        raise SiloFailed(f"silo {silo} is at round {running.number} of run {call.run_id}, it cannot do round {number}")
    algorithm, schema = running.algorithm, running.schema
    message = wire.decode(algorithm.broadcast_type, broadcast)
    budget = Budget(min(call.budget, BUDGETS.get(silo, math.inf)))
    spender = Spender(call.run_id, silo, _ledger(silo), budget)
    state, reply = private_solve(algorithm, schema, running.state, message, broadcast, number, spender)
    packed = wire.encode(reply)
    journal.commit(call.run_id, number, packed, pack_state(algorithm, state))
    _running[call.run_id, silo] = _Running(algorithm, schema, number, state)
    return packed


def _open(silo: str, call: Call, journal: Journal) -> _Running:
    """Open the run at this silo, where the journal says it stands."""
    schema = wire.decode(Schema, call.schema)
    algorithm = registry.build(registry.unpack(call.spec))
    state = algorithm.open_silo(_table(silo, schema), schema, silo, silo_generator(call.seed, silo))
    standing = journal.standing(call.run_id)
    if standing.state is not None:
        state = unpack_state(algorithm, state, standing.state)
    return _Running(algorithm, schema, standing.number, state)


def _table(silo: str, schema: Schema) -> NDArray[Any]:
    key = (silo, schema.variables, *schema.levels.items())
    if key not in _tables:
        _tables[key] = read_rows(silo, _source(silo), schema)
    return _tables[key]


def pack_state(algorithm: FederatedAlgorithm[Any, Any, Any, Any], state: Any) -> bytes:
    """Return the fields of a silo's state that change from round to round, as bytes."""
    return wire.encode({name: wire.encode(getattr(state, name)) for name in algorithm.kept})


def unpack_state(algorithm: FederatedAlgorithm[Any, Any, Any, Any], opened: Any, packed: bytes) -> Any:
    """Return `opened` (fresh from `open_silo`) with the journalled fields put back."""
    hints = get_type_hints(algorithm.silo_type)
    kept: dict[str, bytes] = wire.decode(dict, packed)
    return replace(opened, **{name: wire.decode(hints[name], value) for name, value in kept.items()})


def _source(silo: str) -> Path:
    if silo not in HOSTED:
        raise BadInput(f"silo {silo} is not hosted by this worker: start it with --silo {silo}=FILE")
    return HOSTED[silo]


def _journal(silo: str) -> Journal:
    if silo not in _journals:
        _journals[silo] = Journal(journal_path(_source(silo), silo))
    return _journals[silo]


def _ledger(silo: str) -> FileLedger:
    return FileLedger(ledger_path(_source(silo), silo))


def forget_all() -> None:
    """Close every journal and drop every table: when the worker stops."""
    _running.clear()
    _tables.clear()
    secure_silo.forget_all()
    with contextlib.suppress(Exception):
        for journal in _journals.values():
            journal.__exit__(None, None, None)
    _journals.clear()
