"""One silo as its owner hosts it: it describes its rows, solves rounds, and remembers what it has answered.

A transport calls these methods where the rows are (`method_call.py`). Only the public description, encoded replies and
the lines of the ledger leave a silo; the path of its rows stays with it.
"""

from collections.abc import Hashable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, cast

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
from fedbnsl.data.federated import Fingerprint
from fedbnsl.data.folder.declared import NOTHING_DECLARED, Declared

from .journal import Journal, require_same
from .one_thread import on_one_thread
from .open_run import OpenRun, open_run
from .policy import ANYTHING, Policy
from .private_folder import BadRecord
from .rows import AnyDescribed
from .run_terms import RunTerms
from .secure_sums import Question, SecureSums
from .source import FileSource, SiloSource


class SiloFailed(Exception):  # noqa: N818 - reported by the silo, not a programming error of the caller
    """A silo could not solve its round: its name and what went wrong there, without a traceback."""


class RowsChanged(BadInput):
    """A silo's rows are not those with which a run began."""


@dataclass(frozen=True)
class Answer:
    """A silo's reply to a broadcast, encoded once if it is to leave or to be kept: behind masks it does neither."""

    reply: Any

    @cached_property
    def packed(self) -> bytes:
        """The reply as it leaves."""
        return wire.encode(self.reply)


class SiloService:
    """One silo: its rows, its owner's budget, its journal and ledger, and the runs that are open on it.

    Everything that must survive a crash is in the journal and the ledger, beside the rows. A new service over the same
    files continues where the old one stopped.
    """

    def __init__(self, name: str, source: Path | SiloSource, policy: Policy = ANYTHING) -> None:
        """Host the silo `name` with the rows at `source`: a file, a folder whose silos are pooled, or a table.

        `policy` is what its owner allows, whatever a coordinator asks for.
        """
        self.name = name
        self._source: SiloSource = FileSource(name, source) if isinstance(source, Path) else source
        self._policy = policy
        self._ledger = self._source.ledger(name)
        self._files = ExitStack()
        self._tables: dict[tuple[Any, ...], Any] = {}
        """the rows, by that part of a schema on which their columns and codes depend"""
        self._fitting: set[tuple[Any, ...]] = set()
        """what was found to fit masked sums, by what that depends on"""
        self._open_runs: dict[str, OpenRun] = {}
        self._described = self._source.described
        """the fingerprint of the rows that the silo described last"""
        self._rows: Fingerprint | None = None
        """the fingerprint of the rows in memory"""
        self._pins: dict[str, Fingerprint] = {}
        """the fingerprints of the rows with which runs began"""
        self._terms_digest: tuple[RunTerms | None, str] = (None, "")

    def describe(self, declared: Declared = NOTHING_DECLARED) -> AnyDescribed:
        """Return what is public of the rows: their number, and of each column the kind of its cells and its labels.

        `declared` is what the coordinator knows of the data, and how it wants them read. Raises `BadInput` for
        unreadable rows.
        """
        self._described = self._source.fingerprint(None, digest=self._source.durable)
        return self._source.describe(self.name, declared)

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
        return self._source.seal(run_id)

    def solve(self, terms: RunTerms, number: int, broadcast: bytes) -> bytes:
        """Return the reply to `broadcast` in round `number`; a repeated round gets the reply it got before.

        Raises `BadInput` for rows that cannot be used and for what the owner does not allow, `SiloFailed` for anything
        else that goes wrong here.
        """
        with self._failures_named(number):
            self.admit(terms, behind_masks=False)
            return self._solve(terms, number, broadcast).packed

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
        if self._source.has_journal():
            self._ledger.require(self._journal.charged())
        return tuple(replace(charge, key=b"", binding="") for charge in self._ledger.charges(run_id))

    def finish(self, run_id: str) -> None:
        """Forget a finished run, in memory and in the journal; its charges stay in the ledger, their keys do not."""
        self._open_runs.pop(run_id, None)
        self._pins.pop(run_id, None)
        self._secure_sums.forget(run_id)
        if "_journal" in vars(self) or self._source.has_journal():
            self._journal.forget(run_id)
        self._ledger.finish(run_id)

    def round_of(self, run_id: str) -> int | None:
        """Return the last finished round of a run that is open in memory, None for any other."""
        run = self._open_runs.get(run_id)
        return None if run is None else run.number

    def state(self, run_id: str) -> Any:
        """Return the state of a run that is open in memory: for whoever hosts the silo."""
        return self._open_runs[run_id].state

    def close(self) -> None:
        """Close the journal; the service cannot be used afterwards."""
        self._files.close()

    @cached_property
    def _journal(self) -> Journal:
        # Opened by the first round: a silo that is only described leaves no file behind.
        return self._files.enter_context(self._source.journal())

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

    def _solve(self, terms: RunTerms, number: int, broadcast: bytes) -> Answer:
        binding = self._binding(terms, broadcast)
        answered = self._answered(terms.algorithm(), terms.run_id, number, binding)
        if answered is not None:
            return answered
        with self._untold(terms, number):
            run = self._run_before(terms, number)
            message = _message(cast(Hashable, run.algorithm.broadcast_type), broadcast)
            if run.algorithm.private is None:
                state, reply = run.algorithm.local_solve(run.state, message)
            else:
                budgets = (terms.budget, self._policy.budget)
                spender = Spender(terms.run_id, self.name, self._ledger, binding, budgets)
                state, reply = private_solve(run.algorithm, run.schema, run.state, message, number, spender)
        answer = Answer(reply)
        if self._source.durable:
            private = run.algorithm.private is not None
            charged = private and any(charge.number == number for charge in self._ledger.charges(terms.run_id))
            kept = pack_state(run.algorithm, state)
            self._journal.commit(terms.run_id, number, answer.packed, kept, binding, charged=charged)
        self._open_runs[terms.run_id] = OpenRun(run.algorithm, run.schema, number, state, binding, reply)
        return answer

    def _answered(self, algorithm: Algorithm, run_id: str, number: int, binding: str) -> Answer | None:
        """Return what was answered in a finished round; without a durable journal, that is known of the latest."""
        if self._source.durable:
            packed = self._journal.reply(run_id, number, binding)
            return None if packed is None else Answer(wire.decode(algorithm.reply_type, packed))
        run = self._open_runs.get(run_id)
        if run is None or run.number != number or run.reply is None:
            return None
        require_same(run_id, number, run.binding, binding)
        return Answer(run.reply)

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
        private, rows = terms.algorithm().private is not None, ""
        if private and self._source.durable:
            self._ledger.require(self._journal.charged())
        now = self._rows_now(terms, digest=private)
        if private:
            rows = self._source.seal(f"run {terms.run_id}", now)
        return _binding_of(broadcast, self._digest(terms), rows)

    def _digest(self, terms: RunTerms) -> str:
        """Return what stands for the terms that an answer depends on; they are the same object in every round."""
        if self._terms_digest[0] is not terms:
            parts = (terms.spec, terms.schema.in_order(), terms.seed, terms.declared)
            self._terms_digest = (terms, bound(*parts))
        return self._terms_digest[1]

    def _rows_now(self, terms: RunTerms, *, digest: bool) -> Fingerprint:
        """Return the fingerprint of the rows; what was read from other rows is dropped.

        Raises `RowsChanged` if they are not those with which the run began. Rows that change between the fingerprint
        and their reading have another fingerprint when the next round is asked for.
        """
        run = terms.pinned_run
        new = run not in self._pins
        # Only digests can be compared where one was needed before, as of a file that had just been written.
        known = (self._described, self._rows)
        digest = digest or self._source.durable or any(one is not None and one.digest for one in known)
        # A run that begins takes nothing for granted: a query is asked anew.
        now = self._source.fingerprint(None if new else self._rows, digest=digest)
        if self._rows is not None and now is not self._rows and not self._rows.matches(now):
            self._tables.clear()
            self._fitting.clear()
            self._open_runs.clear()
        self._rows = now
        began = self._described if new else self._pins[run]
        same = began is None or began is now or began.matches(now)
        if same and new and self._source.durable:
            same = self._journal.pin(run, self._source.seal(f"pin {run}", now))
        if not same:
            raise RowsChanged(f"silo {self.name}: its rows have changed since the run began: begin a new run")
        self._pins.setdefault(run, now)
        return now

    def _summand(self, terms: RunTerms, number: int, question: Question) -> Ring:
        """Solve round `number` and return what this silo adds to the sum of the replies."""
        algorithm, schema = terms.algorithm(), terms.schema
        if not algorithm.whole_numbers and algorithm.private is None:
            self._check_range(algorithm, terms)
        reply = self._solve(terms, number, question.broadcast).reply
        units = None
        if masked.in_units(algorithm, schema):
            units = masked.units_of(
                algorithm, schema, _message(cast(Hashable, algorithm.broadcast_type), question.broadcast)
            )
        return masked.to_ring(algorithm, reply, question.sparse, len(schema.rows), units)

    def _check_range(self, algorithm: Algorithm, terms: RunTerms) -> None:
        """Raise `BadInput` for columns that do not fit masked sums: once, as it may take a pass over the rows."""
        schema = terms.schema
        asked = (*self._key(terms), schema.units, masked.in_units(algorithm, schema))
        self._rows_now(terms, digest=False)
        if asked not in self._fitting:
            masked.check_range(algorithm, self._table(terms), schema, self.name)
            self._fitting.add(asked)

    def _run_before(self, terms: RunTerms, number: int) -> OpenRun:
        """Return the run as round `number` finds it: from memory, or opened where the journal says it stands."""
        run = self._open_runs.get(terms.run_id)
        if run is None or run.number != number - 1:
            standing = self._journal.standing(terms.run_id) if self._source.durable else self._source.begun
            run = open_run(terms, self.name, self._table(terms), standing)
        if run.number != number - 1:
            raise SiloFailed(
                f"silo {self.name} is at round {run.number} of run {terms.run_id}, it cannot do round {number}"
            )
        return run

    def _table(self, terms: RunTerms) -> Any:
        key = self._key(terms)
        if key not in self._tables:
            self._tables[key] = self._source.read(self.name, terms.schema, terms.declared)
        return self._tables[key]

    @staticmethod
    def _key(terms: RunTerms) -> tuple[Any, ...]:
        """Return all of the terms on which columns and codes depend."""
        schema, declared = terms.schema, terms.declared
        key = (schema.kind, schema.variables, *schema.levels.items(), schema.complete_rows, declared.form)
        return (*key, *declared.marks.items())


@lru_cache(maxsize=1)
def _binding_of(broadcast: bytes, terms: str, rows: str) -> str:
    """Return the binding of an answer: without rows, it is that of all silos of this process."""
    return bound(broadcast, terms, rows)


@lru_cache(maxsize=1)
def _message(kind: Any, packed: bytes) -> Any:
    """Return a broadcast, decoded once for all silos of this process: no algorithm changes what it is sent."""
    return wire.decode(kind, packed)
