"""The service of one silo, as its owner hosts it: it describes its rows, solves rounds and journals its answers.

A coordinator calls the methods named in `METHODS`; a transport carries each as a `MethodCall`. Only the public
description, encoded replies, seals and the lines of the ledger leave a silo; the path of its rows does not. Everything
that must survive a crash is in the journal and the ledger, beside the rows.

Linear algebra runs on one thread, so that silos on the same machine do not compete for its processors.
"""

from collections.abc import Hashable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import cache, cached_property, lru_cache
from importlib import import_module
from pathlib import Path
from threading import Lock
from typing import Any, Literal, cast, get_args

from threadpoolctl import ThreadpoolController

from fedbnsl.algorithms import registry
from fedbnsl.algorithms.core import wire
from fedbnsl.algorithms.core.promise import Charge
from fedbnsl.algorithms.core.protocol import pack_state
from fedbnsl.algorithms.core.spec import Algorithm
from fedbnsl.algorithms.errors import BadInput
from fedbnsl.algorithms.privacy.ledger import Overspent, Spender, binding_digest, private_solve
from fedbnsl.algorithms.secure import masked
from fedbnsl.algorithms.secure.exchange import COORDINATOR
from fedbnsl.algorithms.secure.masks import Aborted, Ring
from fedbnsl.algorithms.secure.messages import read_names
from fedbnsl.data.federated import Fingerprint
from fedbnsl.data.folder.about import NO_DECLARATION, Declared

from .journal import BadRecord, Journal, require_same
from .policy import ANYTHING, Policy
from .rows import AnyDescribed
from .runs import OpenRun, RunTerms, open_run
from .secure_sums import SecureSumRequest, SecureSums
from .source import FileSource, SiloSource


class _Limit:
    """Counts the open blocks: the number of threads is a setting of the process, not of one of its threads."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._blocks = 0
        self._held = ExitStack()

    def enter(self) -> None:
        with self._lock:
            if not self._blocks:
                self._held.enter_context(_libraries().limit(limits=1))
            self._blocks += 1

    def leave(self) -> None:
        with self._lock:
            self._blocks -= 1
            if not self._blocks:
                self._held.close()


_LIMIT = _Limit()


@contextmanager
def on_one_thread() -> Iterator[None]:
    """Limit linear algebra to one thread within the block; nested blocks cost nothing."""
    _LIMIT.enter()
    try:
        yield
    finally:
        _LIMIT.leave()


@cache
def _libraries() -> ThreadpoolController:
    # The search costs more than most solves, so it is done once, when the last of the libraries has been loaded.
    import_module("scipy.linalg")
    return ThreadpoolController()


class SiloFailed(Exception):  # noqa: N818 - reported by the silo, not a programming error of the caller
    """A silo could not solve its round; the message has its name and the error, without a traceback."""


class RowsChanged(BadInput):
    """A silo's rows have changed since a run began."""


@dataclass(frozen=True)
class Answer:
    """A silo's reply to a broadcast, encoded once if it is sent or journalled: behind masks it is neither."""

    reply: Any

    @cached_property
    def packed(self) -> bytes:
        """The reply as it is sent."""
        return wire.encode(self.reply)


class SiloService:
    """One silo: its rows, its owner's policy, its journal and ledger, and its open runs.

    A new service over the same files continues where the old one stopped.
    """

    def __init__(self, name: str, source: Path | SiloSource, policy: Policy = ANYTHING) -> None:
        """Host the silo `name` with the rows at `source`: a file, a folder whose silos are pooled, or a table.

        `policy` is what its owner allows, independent of what a coordinator requests.
        """
        self.name = name
        self._source: SiloSource = FileSource(name, source) if isinstance(source, Path) else source
        self._policy = policy
        self._ledger = self._source.ledger(name)
        self._files = ExitStack()
        self._tables: dict[tuple[Any, ...], Any] = {}
        """the rows, by the parts of the terms that determine columns and codes"""
        self._fitting: set[tuple[Any, ...]] = set()
        """terms whose columns are known to fit masked sums"""
        self._open_runs: dict[str, OpenRun] = {}
        self._described = self._source.described
        """fingerprint of the rows that were last described"""
        self._rows: Fingerprint | None = None
        """fingerprint of the rows in memory"""
        self._pins: dict[str, Fingerprint] = {}
        """fingerprints of the rows at the start of runs"""
        self._terms_digest: tuple[RunTerms | None, str] = (None, "")

    def describe(self, declared: Declared = NO_DECLARATION) -> AnyDescribed:
        """The public description of the rows: their number, and the kind and labels of each column.

        `declared` is the coordinator's declaration of the data and of how to read them. Raises `BadInput` for
        unreadable rows.
        """
        self._described = self._source.fingerprint(None, digest=self._source.durable)
        return self._source.describe(self.name, declared)

    def admit(self, terms: RunTerms, behind_masks: bool) -> None:
        """Raise `NotAllowed` for a run that the owner's policy refuses, before reading or spending anything.

        `behind_masks` is whether replies leave as summands of a secure sum. Raises `BadInput` for a private run that
        begins on a ledger with fewer charges than the journal.
        """
        if self._policy != ANYTHING:
            self._policy.check(self.name, registry.unpack(terms.spec), terms.schema, behind_masks=behind_masks)
        if terms.run_id not in self._open_runs and terms.algorithm().private is not None:
            self.charges(terms.run_id)

    def seal(self, run_id: str) -> str:
        """The seal of the rows for one run, which shows a coordinator whether they are still the same."""
        return self._source.seal(run_id)

    def solve(self, terms: RunTerms, number: int, broadcast: bytes) -> bytes:
        """The reply to `broadcast` in round `number`; a repeated round gets the same reply again.

        Raises `BadInput` for unusable rows and for what the owner does not allow, `SiloFailed` for any other error.
        """
        with self._report_failures(number):
            self.admit(terms, behind_masks=False)
            return self._solve(terms, number, broadcast).packed

    def secure_answer(self, terms: RunTerms, number: int, question: SecureSumRequest) -> bytes:
        """The answer to one request of the secure sum of round `number`.

        Raises `BadInput` as `solve` does and for numbers outside the range of the sum, `Aborted` if an answer would not
        be safe, `SiloFailed` for any other error.
        """
        with self._report_failures(number):
            self.admit(terms, behind_masks=True)
            if question.phase == "unmask":
                self._policy.check_sum(self.name, len(read_names(question.message, COORDINATOR)))
            return self._secure_sums.answer(
                terms.run_id, number, terms.schema, question, lambda: self._summand(terms, number, question)
            )

    def charges(self, run_id: str | None = None) -> tuple[Charge, ...]:
        """The charges in the ledger for a run, or for all runs on these rows, without anything about the rows.

        Raises `BadInput` if the ledger has fewer charges than the journal.
        """
        if self._source.has_journal():
            self._ledger.require(self._journal.charged())
        return tuple(replace(charge, key=b"", binding="") for charge in self._ledger.charges(run_id))

    def finish(self, run_id: str) -> None:
        """Delete a finished run from memory and journal; its charges stay in the ledger, without their keys."""
        self._open_runs.pop(run_id, None)
        self._pins.pop(run_id, None)
        self._secure_sums.forget(run_id)
        if "_journal" in vars(self) or self._source.has_journal():
            self._journal.forget(run_id)
        self._ledger.finish(run_id)

    def round_of(self, run_id: str) -> int | None:
        """The last finished round of a run that is open in memory, None for any other."""
        run = self._open_runs.get(run_id)
        return None if run is None else run.number

    def state(self, run_id: str) -> Any:
        """The state of a run that is open in memory, for the host of the silo."""
        return self._open_runs[run_id].state

    def close(self) -> None:
        """Close the journal; the service cannot be used afterwards."""
        self._files.close()

    @cached_property
    def _journal(self) -> Journal:
        # Opened by the first round, so that a silo that is only described leaves no file.
        return self._files.enter_context(self._source.journal())

    @cached_property
    def _secure_sums(self) -> SecureSums:
        return SecureSums(self.name, self._journal)

    @contextmanager
    def _report_failures(self, number: int) -> Iterator[None]:
        """Report errors in one line with the name of the silo, as a traceback could show rows."""
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
        with self._redact_errors(terms, number):
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
            saved = pack_state(run.algorithm, state)
            self._journal.commit(terms.run_id, number, answer.packed, saved, binding, charged=charged)
        self._open_runs[terms.run_id] = OpenRun(run.algorithm, run.schema, number, state, binding, reply)
        return answer

    def _answered(self, algorithm: Algorithm, run_id: str, number: int, binding: str) -> Answer | None:
        """The answer of a finished round, None if unknown; without a durable journal, only the latest is known."""
        if self._source.durable:
            packed = self._journal.reply(run_id, number, binding)
            return None if packed is None else Answer(wire.decode(algorithm.reply_type, packed))
        run = self._open_runs.get(run_id)
        if run is None or run.number != number or run.reply is None:
            return None
        require_same(run_id, number, run.binding, binding)
        return Answer(run.reply)

    @contextmanager
    def _redact_errors(self, terms: RunTerms, number: int) -> Iterator[None]:
        """Report only that a round of a private run failed: the reason may reveal a value that no ε covers."""
        try:
            yield
        except (Overspent, BadRecord, SiloFailed):
            raise
        except Exception:
            if terms.algorithm().private is None:
                raise
            raise SiloFailed(
                f"silo {self.name}, round {number}: its rows cannot be used; a run with an ε discloses no reason, but "
                "`fedbnsl inspect` shows it to the owner of the rows"
            ) from None

    def _binding(self, terms: RunTerms, broadcast: bytes) -> str:
        """A digest of everything that determines an answer; in private runs, this includes the rows.

        A silo answers a private run only if its ledger has all charges in its journal.
        """
        private, rows = terms.algorithm().private is not None, ""
        if private and self._source.durable:
            self._ledger.require(self._journal.charged())
        now = self._rows_now(terms, digest=private)
        if private:
            rows = self._source.seal(f"run {terms.run_id}", now)
        return _binding_of(broadcast, self._digest(terms), rows)

    def _digest(self, terms: RunTerms) -> str:
        """A digest of the terms that determine an answer; computed once, as they are the same object in every round."""
        if self._terms_digest[0] is not terms:
            parts = (terms.spec, terms.schema.in_order(), terms.seed, terms.declared)
            self._terms_digest = (terms, binding_digest(*parts))
        return self._terms_digest[1]

    def _rows_now(self, terms: RunTerms, *, digest: bool) -> Fingerprint:
        """The fingerprint of the rows; data in memory from other rows are dropped.

        Raises `RowsChanged` if they changed since the run began. Rows that change between the fingerprint and their
        reading have another fingerprint in the next round.
        """
        run = terms.pinned_run
        new = run not in self._pins
        # A digest can only be compared with a digest, which was needed for a file that had just been written.
        known = (self._described, self._rows)
        digest = digest or self._source.durable or any(one is not None and one.digest for one in known)
        # A new run takes nothing for granted: a query runs again.
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
            raise RowsChanged(f"silo {self.name}: its rows have changed since the run began; start a new run")
        self._pins.setdefault(run, now)
        return now

    def _summand(self, terms: RunTerms, number: int, question: SecureSumRequest) -> Ring:
        """Solve round `number`; returns the summand of this silo in the sum of the replies."""
        algorithm, schema = terms.algorithm(), terms.schema
        if not algorithm.whole_numbers and algorithm.private is None:
            self._check_range(algorithm, terms)
        reply = self._solve(terms, number, question.broadcast).reply
        units = None
        if masked.travels_in_units(algorithm, schema):
            units = masked.units_of(
                algorithm, schema, _message(cast(Hashable, algorithm.broadcast_type), question.broadcast)
            )
        return masked.to_ring(algorithm, reply, question.sparse, len(schema.rows), units)

    def _check_range(self, algorithm: Algorithm, terms: RunTerms) -> None:
        """Raise `BadInput` for columns that do not fit masked sums; checked once, as it may read all rows."""
        schema = terms.schema
        key = (*self._key(terms), schema.units, masked.travels_in_units(algorithm, schema))
        self._rows_now(terms, digest=False)
        if key not in self._fitting:
            masked.check_range(algorithm, self._table(terms), schema, self.name)
            self._fitting.add(key)

    def _run_before(self, terms: RunTerms, number: int) -> OpenRun:
        """The run before round `number`, from memory or reopened from the journal."""
        run = self._open_runs.get(terms.run_id)
        if run is None or run.number != number - 1:
            standing = self._journal.standing(terms.run_id) if self._source.durable else self._source.begun
            run = open_run(terms, self.name, self._table(terms), standing)
        if run.number != number - 1:
            raise SiloFailed(
                f"silo {self.name} is at round {run.number} of run {terms.run_id} and cannot solve round {number}"
            )
        return run

    def _table(self, terms: RunTerms) -> Any:
        key = self._key(terms)
        if key not in self._tables:
            self._tables[key] = self._source.read(self.name, terms.schema, terms.declared)
        return self._tables[key]

    @staticmethod
    def _key(terms: RunTerms) -> tuple[Any, ...]:
        """The parts of the terms that determine columns and codes."""
        schema, declared = terms.schema, terms.declared
        key = (schema.kind, schema.variables, *schema.levels.items(), schema.complete_rows, declared.form)
        return (*key, *declared.marks.items())


@lru_cache(maxsize=1)
def _binding_of(broadcast: bytes, terms: str, rows: str) -> str:
    """The binding of an answer; without rows, it is the same for all silos of this process."""
    return binding_digest(broadcast, terms, rows)


@lru_cache(maxsize=1)
def _message(kind: Any, packed: bytes) -> Any:
    """A broadcast, decoded once for all silos of this process; no algorithm modifies it."""
    return wire.decode(kind, packed)


Method = Literal["describe", "admit", "seal", "solve", "secure_answer", "charges", "finish"]
"""the methods of `SiloService` that a coordinator may call"""
METHODS = get_args(Method)


@dataclass(frozen=True)
class MethodCall:
    """A method of `SiloService` by name, and the arguments to call it with."""

    method: Method
    arguments: tuple[Any, ...] = ()

    def on(self, service: SiloService) -> Any:
        """Call the method of `service`; raises `ValueError` for one that is not for a coordinator."""
        if self.method not in METHODS:
            raise ValueError(f"a coordinator may not call '{self.method}' of a silo; allowed: {', '.join(METHODS)}")
        return getattr(service, self.method)(*self.arguments)
