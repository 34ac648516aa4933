"""One silo as its owner hosts it: it describes its rows, solves rounds, and remembers what it has answered.

A transport calls these methods where the rows are (`method_call.py`). Only the public description, encoded replies and
the lines of the ledger leave a silo; the path of its rows stays with it.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

from fedbnsl.algorithms import registry
from fedbnsl.algorithms.core import wire
from fedbnsl.algorithms.core.kept import pack_state
from fedbnsl.algorithms.core.promise import Charge
from fedbnsl.algorithms.core.spec import Algorithm
from fedbnsl.algorithms.errors import BadInput
from fedbnsl.algorithms.privacy.ledger import Overspent
from fedbnsl.algorithms.privacy.private import Spender, bound, private_solve
from fedbnsl.algorithms.secure import masked
from fedbnsl.algorithms.secure.exchange import COORDINATOR
from fedbnsl.algorithms.secure.masks import Ring
from fedbnsl.algorithms.secure.messages import read_names
from fedbnsl.algorithms.secure.session import Aborted
from fedbnsl.data.folder.declared import NOTHING_DECLARED, Declared

from .journal import Journal, journal_path
from .ledger import ledger_of
from .one_thread import on_one_thread
from .open_run import OpenRun, open_run
from .policy import ANYTHING, Policy
from .private_folder import BadRecord
from .rows import AnyDescribed, describe_rows, read_rows
from .run_terms import RunTerms
from .seal import rows_digest, seal, sealed
from .secure_sums import Question, SecureSums


class SiloFailed(Exception):  # noqa: N818 - reported by the silo, not a programming error of the caller
    """A silo could not solve its round: its name and what went wrong there, without a traceback."""


class SiloService:
    """One silo: its rows, its owner's budget, its journal and ledger, and the runs that are open on it.

    Everything that must survive a crash is in the journal and the ledger, beside the rows. A new service over the same
    files continues where the old one stopped.
    """

    def __init__(self, name: str, source: Path, policy: Policy = ANYTHING) -> None:
        """Host the silo `name` with the rows at `source`: a file, or a folder whose silos are pooled.

        `policy` is what its owner allows, whatever a coordinator asks for.
        """
        self.name = name
        self._source = source
        self._policy = policy
        self._ledger = ledger_of(source, name)
        self._files = ExitStack()
        self._tables: dict[tuple[Any, ...], Any] = {}
        """the rows, by that part of a schema on which their columns and codes depend"""
        self._fitting: set[tuple[Any, ...]] = set()
        """what was found to fit masked sums, by what that depends on"""
        self._open_runs: dict[str, OpenRun] = {}
        self._digest = b""
        """of the rows that private runs have in memory"""

    def describe(self, declared: Declared = NOTHING_DECLARED) -> AnyDescribed:
        """Return what is public of the rows: their number, and of each column the kind of its cells and its labels.

        `declared` is what the coordinator knows of the data, and how it wants them read. Raises `BadInput` for
        unreadable rows.
        """
        return describe_rows(self.name, self._source, declared)

    def admit(self, terms: RunTerms, behind_masks: bool) -> None:
        """Raise `NotAllowed` for a run that the owner's policy refuses; nothing is read and nothing spent.

        `behind_masks` tells whether replies are to leave as summands of a secure sum. Raises `BadInput` for a private
        run that begins on a ledger which knows less than the journal.
        """
        if self._policy != ANYTHING:
            self._policy.check(self.name, registry.unpack(terms.spec), terms.schema, behind_masks=behind_masks)
        if terms.run_id not in self._open_runs and terms.algorithm().private is not None:
            self.charges(terms.run_id)

    def seal(self, run_id: str) -> str:
        """Return the seal of the rows for one run: by it a coordinator knows whether they are still the same."""
        return seal(self._source, run_id)

    def solve(self, terms: RunTerms, number: int, broadcast: bytes) -> bytes:
        """Return the reply to `broadcast` in round `number`; a repeated round gets the reply it got before.

        Raises `BadInput` for rows that cannot be used and for what the owner does not allow, `SiloFailed` for anything
        else that goes wrong here.
        """
        with self._failures_named(number):
            self.admit(terms, behind_masks=False)
            return self._solve(terms, number, broadcast)

    def secure_answer(self, terms: RunTerms, number: int, question: Question) -> bytes:
        """Return the answer to one question of the secure sum of round `number`.

        Raises `BadInput` as `solve` does and for a number that does not fit the sum, `Aborted` if it would not be safe
        to answer, `SiloFailed` for anything else that goes wrong here.
        """
        with self._failures_named(number):
            self.admit(terms, behind_masks=True)
            if question.phase == "unmask":
                self._policy.check_sum(self.name, len(read_names(question.message, COORDINATOR)))
            return self._secure_sums.answer(
                terms.run_id, number, terms.schema, question, lambda: self._summand(terms, number, question)
            )

    def charges(self, run_id: str | None = None) -> tuple[Charge, ...]:
        """Return what the ledger says of a run, or of all runs on these rows: what was spent, and nothing of the rows.

        Raises `BadInput` if the ledger knows less than the journal.
        """
        if journal_path(self._source, self.name).exists():
            self._ledger.require(self._journal.charged())
        return tuple(replace(charge, key=b"", binding="") for charge in self._ledger.charges(run_id))

    def finish(self, run_id: str) -> None:
        """Forget a finished run, in memory and in the journal; its charges stay in the ledger, their keys do not."""
        self._open_runs.pop(run_id, None)
        self._secure_sums.forget(run_id)
        self._journal.forget(run_id)
        self._ledger.finish(run_id)

    def close(self) -> None:
        """Close the journal; the service cannot be used afterwards."""
        self._files.close()

    @cached_property
    def _journal(self) -> Journal:
        # Opened by the first round: a silo that is only described leaves no file behind.
        return self._files.enter_context(Journal(journal_path(self._source, self.name)))

    @cached_property
    def _secure_sums(self) -> SecureSums:
        return SecureSums(self.name, self._journal)

    @contextmanager
    def _failures_named(self, number: int) -> Iterator[None]:
        """Report what goes wrong in one line with the name of the silo: a traceback could show rows."""
        try:
            with on_one_thread():
                yield
        except (BadInput, Aborted, SiloFailed):
            raise
        except Exception as error:
            raise SiloFailed(f"silo {self.name}, round {number}: {type(error).__name__}: {error}") from None

    def _solve(self, terms: RunTerms, number: int, broadcast: bytes) -> bytes:
        binding = self._binding(terms, broadcast)
        answered = self._journal.reply(terms.run_id, number, binding)
        if answered is not None:
            return answered
        spender = Spender(terms.run_id, self.name, self._ledger, binding, (terms.budget, self._policy.budget))
        with self._untold(terms, number):
            run = self._run_before(terms, number)
            message = wire.decode(run.algorithm.broadcast_type, broadcast)
            state, reply = private_solve(run.algorithm, run.schema, run.state, message, number, spender)
        packed, kept = wire.encode(reply), pack_state(run.algorithm, state)
        charged = any(charge.number == number for charge in self._ledger.charges(terms.run_id))
        self._journal.commit(terms.run_id, number, packed, kept, binding, charged=charged)
        self._open_runs[terms.run_id] = replace(run, number=number, state=state)
        return packed

    @contextmanager
    def _untold(self, terms: RunTerms, number: int) -> Iterator[None]:
        """In a private run, tell only that a round failed: the reason may be a value that nobody paid for."""
        try:
            yield
        except (Overspent, BadRecord, SiloFailed):
            raise
        except Exception:
            if terms.algorithm().private is None:
                raise
            raise SiloFailed(
                f"silo {self.name}, round {number}: its rows cannot be used, and a run with an ε tells no more: "
                "`fedbnsl inspect` names what is wrong with them to who has them"
            ) from None

    def _binding(self, terms: RunTerms, broadcast: bytes) -> str:
        """Return what stands for all that an answer depends on; in private runs, the rows are part of it.

        A private run is answered only by a silo whose ledger knows all that its journal says was charged.
        """
        rows = ""
        if terms.algorithm().private is not None:
            self._ledger.require(self._journal.charged())
            rows = self._rows_now(terms.run_id)
        return bound(broadcast, terms.spec, terms.schema.in_order(), terms.seed, terms.declared, rows)

    def _rows_now(self, run_id: str) -> str:
        """Return the seal of the rows for a run; what was read from other rows is dropped, so that it is true of all.

        Rows that change between the seal and their reading have another seal when the round is asked for again.
        """
        digest = rows_digest(self._source)
        if digest != self._digest:
            self._digest = digest
            self._tables.clear()
            self._open_runs.clear()
        return sealed(self._source, f"run {run_id}", digest)

    def _summand(self, terms: RunTerms, number: int, question: Question) -> Ring:
        """Solve round `number` and return what this silo adds to the sum of the replies."""
        algorithm, schema = terms.algorithm(), terms.schema
        if not algorithm.whole_numbers and algorithm.private is None:
            self._check_range(algorithm, terms)
        reply = wire.decode(algorithm.reply_type, self._solve(terms, number, question.broadcast))
        units = None
        if masked.in_units(algorithm, schema):
            units = masked.units_of(algorithm, schema, wire.decode(algorithm.broadcast_type, question.broadcast))
        return masked.to_ring(algorithm, reply, question.sparse, len(schema.rows), units)

    def _check_range(self, algorithm: Algorithm, terms: RunTerms) -> None:
        """Raise `BadInput` for columns that do not fit masked sums: once, as it may take a pass over the rows."""
        schema = terms.schema
        asked = (*self._key(terms), schema.units, masked.in_units(algorithm, schema))
        if asked not in self._fitting:
            masked.check_range(algorithm, self._table(terms), schema, self.name)
            self._fitting.add(asked)

    def _run_before(self, terms: RunTerms, number: int) -> OpenRun:
        """Return the run as round `number` finds it: from memory, or opened where the journal says it stands."""
        run = self._open_runs.get(terms.run_id)
        if run is None or run.number != number - 1:
            run = open_run(terms, self.name, self._table(terms), self._journal.standing(terms.run_id))
        if run.number != number - 1:
            raise SiloFailed(
                f"silo {self.name} is at round {run.number} of run {terms.run_id}, it cannot do round {number}"
            )
        return run

    def _table(self, terms: RunTerms) -> Any:
        key = self._key(terms)
        if key not in self._tables:
            self._tables[key] = read_rows(self.name, self._source, terms.schema, terms.declared)
        return self._tables[key]

    @staticmethod
    def _key(terms: RunTerms) -> tuple[Any, ...]:
        """Return all of the terms on which columns and codes depend."""
        schema, declared = terms.schema, terms.declared
        key = (schema.kind, schema.variables, *schema.levels.items(), schema.complete_rows, declared.form)
        return (*key, *declared.marks.items())
