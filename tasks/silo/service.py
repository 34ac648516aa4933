"""The service of one silo, hosted by its owner: it describes its rows, solves rounds and journals its answers.

A coordinator calls the methods in `METHODS` of `messages.py`, which also has their form as bytes. What leaves
a silo: the public description, encoded replies, the messages of secure sums, seals, the charges of the ledger and the
lines of the disclosure statement. The path of its rows does not leave it.
All state that must survive a crash is in the journal and the ledger, beside the rows.
"""

from collections.abc import Hashable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from fedbnsl.algorithms.core import wire
from fedbnsl.algorithms.core.promise import Charge
from fedbnsl.algorithms.core.protocol import Algorithm, pack_state
from fedbnsl.algorithms.core.release import Disclosed, SiloRelease, Statistic
from fedbnsl.algorithms.core.schema import Schema
from fedbnsl.algorithms.errors import BadInput, quoted
from fedbnsl.algorithms.privacy.ledger import Overspent, Spender, binding_digest, private_solve, require_bounded
from fedbnsl.algorithms.secure import masked_round
from fedbnsl.algorithms.secure.masks import Aborted, Refused, Ring
from fedbnsl.algorithms.statistics.count_tables import NO_LIMITS, TableRefused, limited_counts
from fedbnsl.algorithms.statistics.moments import Divided
from fedbnsl.algorithms.statistics.transforms import transformed
from fedbnsl.data.federated import Fingerprint
from fedbnsl.data.folder.about import NO_DECLARATION, Declared

from .facts import require_image
from .gate import Gate, numbers_in, release_of, smallest_count
from .guard import LOCAL, Guard, GuardedPasses
from .journal import Journal, require_same_binding
from .messages import RowsChanged, SiloFailed
from .one_thread import on_one_thread
from .policy import UNRESTRICTED, NotAllowed, Policy
from .private_folder import BadRecord, RecordUnavailable
from .publications import RowVersion, version_under
from .readers import ReaderLost
from .rows import AnyDescribed
from .runs import OpenRun, RunTerms, open_run, terms_digest
from .secure_sums import SecureSumRequest, SecureSums
from .signed_records import SignedRecord, require_hashes, sign_record
from .source import FileSource, SiloSource

KEPT_DESCRIPTIONS = 8
"""number of descriptions of the same rows, under different declarations, that a silo keeps in memory"""
MAX_OPEN_RUNS, MAX_TABLES = 8, 4
"""how many runs, and how many selections of the rows, a silo keeps in memory for another party"""
FAR_CELLS = "; if some numbers are wrong, --outliers set-aside treats outliers as empty cells"


class OutsideRange(BadInput):
    """A column does not fit the fixed-point numbers of masked sums; the message names it."""


@dataclass(frozen=True)
class Answer:
    """A silo's reply to a broadcast; it is encoded at its first use, because some replies are masked instead."""

    reply: Any
    release: SiloRelease
    """the release that the gate allowed"""

    @cached_property
    def packed(self) -> bytes:
        """The encoded reply."""
        return wire.encode(self.reply)


class SiloService:
    """One silo: its rows, its owner's policy, its journal and ledger, and its open runs.

    A new service with the same files continues from the last round in the journal.
    """

    def __init__(
        self, name: str, source: Path | SiloSource, policy: Policy = UNRESTRICTED, guard: Guard = LOCAL
    ) -> None:
        """Host the silo `name` with the rows at `source`: a file, a folder whose silos are pooled, or a table.

        `policy` has the owner's limits for every request of a coordinator; `guard` has the further checks of a silo on
        its owner's machine.
        """
        self.name = name
        self._source: SiloSource = FileSource(name, source) if isinstance(source, Path) else source
        self._guard = replace(guard, policy=policy) if policy != UNRESTRICTED else guard
        self._policy = self._guard.policy
        self._ledger = self._source.ledger(name)
        self._files = ExitStack()
        self._tables: dict[tuple[Any, ...], Any] = {}
        """the rows as numbers, by `_key` of the terms"""
        self._checked_ranges: set[tuple[Any, ...]] = set()
        """the terms (by `_key` and how values are scaled) under which all values are in the range of masked sums"""
        self._versions: dict[tuple[Any, ...], RowVersion] = {}
        """the digests of the rows (`publications.py`), by `_key` of the terms"""
        self._published: dict[tuple[Any, ...], str] = {}
        """the names of recorded publications, by `_key` of the terms"""
        self._terms_digests: dict[str, str] = {}
        """the digest of the terms of each run"""
        self._open_runs: dict[str, OpenRun] = {}
        guarded = self._guard.remote or self._guard.restricted
        self._gate = Gate(name, self._policy, guarded=guarded, journal=self._kept_journal)
        self._summands: dict[str, tuple[int, Answer]] = {}
        """by run, the last round whose summand was masked, and its answer; only this sum can be unmasked"""
        self._descriptions: dict[bytes, AnyDescribed] = {}
        """descriptions of the rows, by the encoded declaration"""
        self._described_fingerprint = self._source.described
        """fingerprint of the rows that were last described"""
        self._fingerprint: Fingerprint | None = None
        """fingerprint of the rows in memory"""
        self._first_fingerprints: dict[str, Fingerprint] = {}
        """fingerprints of the rows at the start of runs"""

    def describe(self, declared: Declared = NO_DECLARATION) -> AnyDescribed:
        """The public description of the rows: their number, and the kind and labels of each column.

        `declared` is the coordinator's declaration of the data and of how to read them. Raises `BadInput` for
        unreadable rows, `NotAllowed` for a declaration that the owner's policy refuses.
        """
        declared = self._guard.declaration(self.name, declared)
        with self._guard.reading(self.name):
            now = self._source.fingerprint(None, digest=self._source.durable)
        if self._described_fingerprint is None or not self._described_fingerprint.matches(now):
            self._descriptions.clear()
        self._described_fingerprint = now
        return self._guard.disclosed(self.name, self._description(declared))

    def _description(self, declared: Declared) -> AnyDescribed:
        """The description of the rows under the guarded `declared`, computed once while the rows are the same."""
        key = wire.encode(declared)
        if key not in self._descriptions:
            with self._guard.reading(self.name):
                self._descriptions[key] = self._source.describe(self.name, declared)
            for oldest in list(self._descriptions)[:-KEPT_DESCRIPTIONS]:
                del self._descriptions[oldest]
        return self._descriptions[key]

    def admit(self, terms: RunTerms, behind_masks: bool) -> None:
        """Raise `NotAllowed` for a run that this silo refuses; no budget is spent.

        `behind_masks`: whether replies leave as summands of a secure sum. Raises `BadInput` if the rows have changed
        since the run began, and if the ledger of a private run has fewer charges than the journal.
        """
        terms = self._admitted(terms, behind_masks)
        # Without a journal, nothing has been published; a silo that never answers writes no file.
        if self._min_changed_rows(terms) and self._source.has_journal():
            self._current_fingerprint(terms, digest=True)
            self._check_changes(terms, record=False)

    def _admitted(self, terms: RunTerms, behind_masks: bool) -> RunTerms:
        """The terms under which this silo answers (see `Guard.terms`); raises as `admit`."""
        terms = self._guard.terms(self.name, terms)
        self._gate.check_run(terms, behind_masks=behind_masks)
        if self._guard.remote:
            described, hides_counts = self._description(terms.declared), self._policy.cells > 1
            with self._guard.reading(self.name):
                require_image(self.name, terms.schema, terms.declared, described, hides_counts=hides_counts)
        if terms.run_id not in self._open_runs and terms.algorithm().private is not None:
            self.charges(terms.run_id)
        if behind_masks:
            self._gate.check_sums(terms, terms.schema.silos)
        return terms

    def _require_same_terms(self, terms: RunTerms) -> None:
        """Raise `NotAllowed` unless all requests of the run, in every round and phase, have these terms.

        A request is judged by its terms, so what it continues must have begun under the same ones.
        """
        digest = f"{terms_digest(terms)} {terms.step_of}"
        if terms.run_id not in self._terms_digests:
            began = self._journal.first_terms(terms.run_id, digest) if self._source.durable else digest
            self._terms_digests[terms.run_id] = began
        if self._terms_digests[terms.run_id] != digest:
            raise NotAllowed(f"silo {self.name}: the run began under other terms; start a new run")

    def seal(self, run_id: str) -> str:
        """The seal of the rows for one run; a coordinator compares seals to detect changed rows."""
        with self._guard.reading(self.name):
            return self._source.seal("coordinator", run_id)

    def solve(self, terms: RunTerms, number: int, broadcast: bytes) -> bytes:
        """The reply to `broadcast` in round `number`; a repeated round gets the same reply again.

        Raises `BadInput` for unusable rows, `NotAllowed` for a refused run, `SiloFailed` for any other error.
        """
        with self._report_failures(number):
            admitted = self._admitted(terms, behind_masks=False)
            self._require_same_terms(terms)
            answer = self._solve(admitted, number, broadcast, behind_masks=False)
            self._record(admitted, number, answer, len(answer.packed))
            return answer.packed

    def _record(self, terms: RunTerms, number: int, answer: Answer, size: int) -> None:
        """Record with the gate that `answer` leaves, in `size` bytes."""
        algorithm, release = terms.algorithm(), answer.release
        charges = self._ledger.charges(terms.run_id) if release.private else ()
        rho = sum((charge.rho for charge in charges if charge.number == number), 0.0)
        smallest = smallest_count(algorithm, release, answer.reply)
        self._gate.record(terms, release, size, numbers_in(answer.reply), rho, smallest)

    def secure_answer(self, terms: RunTerms, number: int, request: SecureSumRequest) -> bytes:
        """The answer to one request of the secure sum of round `number`.

        Raises `BadInput` as `solve` does and for numbers outside the range of the sum, `Aborted` if an answer would not
        be safe, `SiloFailed` for any other error.
        """
        with self._report_failures(number):
            admitted = self._admitted(terms, behind_masks=True)
            self._require_same_terms(terms)
            if request.phase == "unmask":
                return self._unmask(admitted, number, request)
            content = self._secure_sums.answer(terms, number, request, lambda: self._summand(admitted, number, request))
            self._gate.record_message(terms.pinned_run, "masked messages", len(content), terms.schema.silos)
            return content

    def _unmask(self, terms: RunTerms, number: int, request: SecureSumRequest) -> bytes:
        """The answer that unmasks the sum of round `number`, which is then recorded with the gate."""
        survivors = self._secure_sums.survivors(terms.run_id, number, request.message)
        last, answer = self._summands.get(terms.run_id, (0, None))
        if answer is None or last != number:
            raise Refused(f"{self.name} refuses to unmask: it has not just masked a summand of round {number}")
        self._policy.check_sum(self.name, len(survivors))
        with self._journal.transaction():  # another process of this silo may be asked for another sum
            self._gate.check_sums(terms, survivors, record=True)
        content = self._secure_sums.answer(terms, number, request)
        self._record(terms, number, replace(answer, release=replace(answer.release, silos=survivors)), len(content))
        del self._summands[terms.run_id]
        return content

    def charges(self, run_id: str | None = None) -> tuple[Charge, ...]:
        """The charges in the ledger for a run, or for all runs on these rows; charges disclose nothing about the rows.

        Raises `BadInput` if the ledger has fewer charges than the journal.
        """
        if self._source.has_journal():
            self._ledger.require(self._journal.charged())
        return tuple(replace(charge, key=b"", binding="") for charge in self._ledger.charges(run_id))

    def releases(self, run_id: str) -> tuple[Disclosed, ...]:
        """The lines of the disclosure statement of a run and its further exchanges."""
        return self._gate.statement(run_id)

    def sign(self, run_id: str, files: dict[str, str]) -> SignedRecord:
        """The silo's signed record of a run whose result has `files`, each with its hash (`signed_records.py`).

        Raises `NotAllowed` without a key, for a run in which the silo took no part, and for a second result of a run.
        """
        require_hashes(files)
        signer, statement = self._guard.signer, self.releases(run_id)
        if signer is None:
            raise NotAllowed(f"silo {self.name}: it has no certificate, so it signs no record")
        if not statement:
            raise NotAllowed(f"silo {self.name}: it has not taken part in this run, so it signs no record of it")
        digest = binding_digest(tuple(sorted(files.items())))
        if self._source.durable and self._journal.first_signed(run_id, digest) != digest:
            raise NotAllowed(f"silo {self.name}: it has already signed another result of this run")
        return sign_record(signer, run_id, self.name, self._policy, statement, files)

    def record_message(self, run_id: str, statistic: Statistic, size: int) -> None:
        """Record a message of `size` bytes that is no reply of a round; not callable by a coordinator.

        If nothing is known of the run, the message belongs to the next run that begins.
        """
        self._gate.record_message(run_id if self._gate.statement(run_id) else "", statistic, size)

    def finish(self, run_id: str) -> None:
        """Delete a finished run from memory and journal; its charges remain in the ledger, without noise keys."""
        self._forget_state(run_id)
        self._secure_sums.forget_key(run_id)
        self._first_fingerprints.pop(run_id, None)
        self._terms_digests.pop(run_id, None)
        self._gate.forget(run_id)
        if "_journal" in vars(self) or self._source.has_journal():
            self._journal.forget(run_id)
        self._ledger.finish(run_id)

    def _bound_memory(self) -> None:
        """For another party, keep the state of its latest runs and the latest tables only; the journal has all runs."""
        if self._guard.remote and self._source.durable:
            for oldest in list(self._open_runs)[:-MAX_OPEN_RUNS]:
                self._forget_state(oldest)
            for key in list(self._tables)[:-MAX_TABLES]:
                self._tables.pop(key, None)
                self._versions.pop(key, None)

    def _forget_state(self, run_id: str) -> None:
        """Drop what memory has of a run; the journal, if there is one, can reopen the run."""
        self._open_runs.pop(run_id, None)
        self._secure_sums.abandon(run_id)
        self._summands.pop(run_id, None)

    def round_of(self, run_id: str) -> int | None:
        """The last finished round of a run that is open in memory; None for a run that is not."""
        run = self._open_runs.get(run_id)
        return None if run is None else run.number

    def state(self, run_id: str) -> Any:
        """The state of a run that is open in memory; not callable by a coordinator."""
        return self._open_runs[run_id].state

    def close(self) -> None:
        """Close the journal; the service cannot be used afterwards."""
        self._files.close()

    @cached_property
    def _journal(self) -> Journal:
        # Opened by the first round, so that a silo that is only described writes no file.
        return self._files.enter_context(self._source.journal())

    def _kept_journal(self) -> Journal | None:
        """The journal, if it exists and persists after the process; this function creates no file."""
        exists = "_journal" in vars(self) or self._source.has_journal()
        return self._journal if self._source.durable and exists else None

    @cached_property
    def _secure_sums(self) -> SecureSums:
        return SecureSums(self.name, self._journal, self._guard.members)

    @contextmanager
    def _report_failures(self, number: int) -> Iterator[None]:
        """Raise unexpected errors as `SiloFailed` with one line, because a traceback could show rows.

        Another party does not learn the path of records that cannot be read or written.
        """
        try:
            with on_one_thread():
                yield
        except RecordUnavailable as error:
            if not self._guard.remote:
                raise
            self._guard.log(f"error: round {number}: {error}")
            what = "its records cannot be read or written; its owner sees why in the log"
            raise RecordUnavailable(f"silo {self.name}, round {number}: {what}") from None
        except (BadInput, Aborted, MemoryError):
            raise
        except Exception as error:
            reason = type(error).__name__
            if self._guard.remote:
                self._guard.log(f"error: round {number}: {reason}: {error}")
                raise SiloFailed(f"silo {self.name}, round {number}: {reason}; its owner sees why in the log") from None
            raise SiloFailed(f"silo {self.name}, round {number}: {reason}: {error}") from None

    def _solve(self, terms: RunTerms, number: int, broadcast: bytes, *, behind_masks: bool) -> Answer:
        algorithm = terms.algorithm()
        private = algorithm.private is not None
        try:
            message = _message(cast(Hashable, algorithm.broadcast_type), broadcast)
        except BadInput:
            raise
        except ValueError:
            name = terms.spec_value.name
            raise BadInput(f"silo {self.name}: what it received is not a broadcast of {name}") from None
        release = release_of(terms, self.name, message, behind_masks=behind_masks)
        self._gate.check(terms, number, release)
        binding = self._binding(terms, broadcast)
        rows = self._fingerprint
        answer = self._journaled_answer(algorithm, terms.run_id, number, binding, release)
        if answer is None:
            if private:
                require_bounded(message, private=True)
            with self._redact_errors(terms, number):
                run = self._run_before(terms, number)
                self._fix_selection(terms)
                if self._min_changed_rows(terms):
                    self._check_changes(terms, record=True)
                if run.algorithm.private is None:
                    with self._limited_counts():
                        state, reply = run.algorithm.local_solve(run.state, message)
                else:
                    budgets = (terms.budget, self._policy.budget)
                    spender = Spender(terms.run_id, self.name, self._ledger, binding, budgets)
                    state, reply = private_solve(run.algorithm, run.schema, run.state, message, number, spender)
            if self._reads_in_passes(terms):
                self._require_unchanged(terms, rows)
            answer = Answer(reply, release)
            if self._source.durable:
                charged = private and any(charge.number == number for charge in self._ledger.charges(terms.run_id))
                saved = pack_state(run.algorithm, state)
                self._journal.commit(terms.run_id, number, answer.packed, saved, binding, charged=charged)
            self._open_runs.pop(terms.run_id, None)
            self._open_runs[terms.run_id] = OpenRun(run.algorithm, run.schema, number, state, binding, reply)
            self._bound_memory()
        return answer

    @contextmanager
    def _limited_counts(self) -> Iterator[None]:
        """Within the block, count tables obey the owner's limits; raises `NotAllowed` for a table that exceeds them."""
        limits = self._policy.count_limits
        try:
            with nullcontext() if limits == NO_LIMITS else limited_counts(limits):
                yield
        except TableRefused as refusal:
            raise NotAllowed(f"silo {self.name}: its owner's policy refuses {refusal}") from None

    def _journaled_answer(
        self, algorithm: Algorithm, run_id: str, number: int, binding: str, release: SiloRelease
    ) -> Answer | None:
        """The stored answer of a finished round, or None; without a durable journal, only the latest is stored."""
        if self._source.durable:
            packed = self._journal.reply(run_id, number, binding)
            return None if packed is None else Answer(wire.decode(algorithm.reply_type, packed), release)
        run = self._open_runs.get(run_id)
        if run is None or run.number != number or run.reply is None:
            return None
        require_same_binding(run_id, number, run.binding, binding)
        return Answer(run.reply, release)

    @contextmanager
    def _redact_errors(self, terms: RunTerms, number: int) -> Iterator[None]:
        """Raise `SiloFailed` without a reason, in a private run and for another party: a reason may quote cells."""
        try:
            yield
        except (Overspent, BadRecord, ReaderLost, RowsChanged, SiloFailed, NotAllowed, OutsideRange, MemoryError):
            raise
        except Exception as error:
            if terms.algorithm().private is None:
                if not (self._guard.remote and isinstance(error, BadInput)):
                    raise
                self._guard.log(f"error: round {number}: {error}")
                what = f"silo {self.name}, round {number}: its rows cannot be used; its owner sees why in the log"
                raise SiloFailed(what) from None
            raise SiloFailed(
                f"silo {self.name}, round {number}: its rows cannot be used; a private run does not disclose the "
                "reason, but `fedbnsl inspect` shows it to the owner of the rows"
            ) from None

    def _binding(self, terms: RunTerms, broadcast: bytes) -> str:
        """A digest of everything that determines an answer; in private runs, this includes the rows.

        Raises `BadInput` in a private run if the ledger has fewer charges than the journal.
        """
        private, rows = terms.algorithm().private is not None, ""
        if private and self._source.durable:
            self._ledger.require(self._journal.charged())
        now = self._current_fingerprint(terms, digest=private)
        if private:
            rows = self._source.seal("binding", terms.run_id, now)
        return _binding_of(broadcast, terms_digest(terms), rows)

    def _require_unchanged(self, terms: RunTerms, before: Fingerprint | None) -> None:
        """Raise `RowsChanged` if the rows have changed since the fingerprint `before`, which precedes a pass over them.

        The version of the rows that is compared with earlier publications is that of another pass.
        """
        now = self._current_fingerprint(terms, digest=terms.algorithm().private is not None)
        if before is None or before.stamp != now.stamp:
            raise RowsChanged(f"silo {self.name}: its rows have changed while they were read; start a new run")

    def _current_fingerprint(self, terms: RunTerms, *, digest: bool) -> Fingerprint:
        """The current fingerprint of the rows; if the rows in memory have another one, drops all cached data.

        Raises `RowsChanged` if the rows have changed since the run began. Of a table in memory, a change between the
        fingerprint and the reading of the rows shows in the fingerprint of the next round.
        """
        run = terms.pinned_run
        new = run not in self._first_fingerprints
        # A digest can only be compared with a digest; an earlier fingerprint has one if its file had just been
        # written.
        earlier = (self._described_fingerprint, self._fingerprint)
        digest = digest or self._source.durable or any(one is not None and one.digest for one in earlier)
        # A new run does not reuse the last fingerprint: if the rows come from a query, the query runs again.
        # Neither do rows that are read in passes, because they are read again in each round.
        before = None if new or self._reads_in_passes(terms) else self._fingerprint
        with self._guard.reading(self.name):
            now = self._source.fingerprint(before, digest=digest)
        if self._fingerprint is not None and now is not self._fingerprint and not self._fingerprint.matches(now):
            self._tables.clear()
            self._checked_ranges.clear()
            self._open_runs.clear()
            self._versions.clear()
            self._published.clear()
            self._descriptions.clear()
        self._fingerprint = now
        began = self._described_fingerprint if new else self._first_fingerprints[run]
        same = began is None or began is now or began.matches(now)
        if same and new and self._source.durable:
            same = self._journal.pin(run, self._source.seal("pin", run, now))
        if not same:
            raise RowsChanged(f"silo {self.name}: its rows have changed since the run began; start a new run")
        self._first_fingerprints.setdefault(run, now)
        return now

    def _reads_in_passes(self, terms: RunTerms) -> bool:
        """Whether a round of these terms reads the rows again, or for the first time."""
        table = self._tables.get(self._table_key(terms))
        return table is None or isinstance(table, Divided)

    def _summand(self, terms: RunTerms, number: int, request: SecureSumRequest) -> Ring:
        """Solve round `number`; returns this silo's summand in the sum of the replies."""
        algorithm, schema = terms.algorithm(), terms.schema
        if not algorithm.whole_numbers and algorithm.private is None:
            with self._redact_errors(terms, number):
                self._check_range(algorithm, terms)
        answer = self._solve(terms, number, request.broadcast, behind_masks=True)
        self._summands[terms.run_id] = number, answer
        assert algorithm.summand is not None
        broadcast = _message(cast(Hashable, algorithm.broadcast_type), request.broadcast)
        encoding = masked_round.encoding_of(algorithm, schema, broadcast, request.sparse)
        return encoding.encode(algorithm.summand(answer.reply))

    def _check_range(self, algorithm: Algorithm, terms: RunTerms) -> None:
        """Raise `BadInput` for values outside the range of masked sums; cached, because the check may read all rows."""
        schema = terms.schema
        key = (
            *self._table_key(terms),
            *schema.transforms.items(),
            schema.units,
            masked_round.travels_in_units(algorithm, schema),
        )
        self._current_fingerprint(terms, digest=False)
        if key not in self._checked_ranges:
            self._fix_units(schema)
            try:
                masked_round.check_range(
                    algorithm, transformed(self._table(terms), schema, self.name), schema, self.name
                )
            except masked_round.OutOfRange as error:
                raise OutsideRange(f"{error}{self._far_cell(terms, error.variable)}") from None
            self._checked_ranges.add(key)

    def _fix_units(self, schema: Schema) -> None:
        """Raise `NotAllowed` for a column whose unit differs from that of an earlier run from the same rows.

        A silo refuses numbers that are too large or too small for a unit, so a coordinator that tries many units would
        find their magnitude.
        """
        for name, unit in zip(schema.variables, schema.units, strict=False):
            what = f"unit of {name}, {schema.transforms.get(name, 'none')}"
            if self._first_choice(what, unit.hex()) != unit.hex():
                raise NotAllowed(
                    f"silo {self.name}, column {quoted(name)}: its unit differs from that of an earlier run from the "
                    "same rows"
                )

    def _first_choice(self, what: str, choice: str) -> str:
        """What the first run from the present rows chose for `what`: `choice`, unless another run chose before.

        A silo compares the choices of other parties only, and only behind masks.
        """
        if not (self._guard.remote and self._policy.masked and self._source.durable):
            return choice
        return self._journal.first_choice(self._source.seal("choices", now=self._fingerprint), what, choice)

    def _far_cell(self, terms: RunTerms, variable: str) -> str:
        """Advice on numbers out of range; names the most extreme cell unless the coordinator is another party."""
        remedy = "" if terms.declared.reading.outliers == "set-aside" else FAR_CELLS
        place = self._source.far_cell(self._table(terms), terms.schema, variable, terms.declared)
        if self._guard.remote and place:
            self._guard.log(f"error: {place}")
        return remedy + (f"; {place}" if place and not self._guard.remote else "")

    def _run_before(self, terms: RunTerms, number: int) -> OpenRun:
        """The run before round `number`, from memory or reopened; raises `SiloFailed` if it is at another round."""
        run = self._open_runs.get(terms.run_id)
        if run is None or run.number != number - 1:
            run_state = self._journal.run_state(terms.run_id) if self._source.durable else self._source.initial_state
            clusters = self._clusters(terms) if terms.algorithm().takes_clusters else None
            run = open_run(terms, self.name, self._table(terms), run_state, self._secret_seed(terms), clusters)
        if run.number != number - 1:
            raise SiloFailed(
                f"silo {self.name} is at round {run.number} of run {terms.run_id} and cannot solve round {number}"
            )
        return run

    def _fix_selection(self, terms: RunTerms) -> None:
        """Raise `NotAllowed` for masked sums over another selection of the same rows than in an earlier run.

        The difference of two sums over the rows that are complete in certain columns is over the rows with a certain
        empty cell, which few silos may have. Resamples by another scheme are further sums of the same rows, and from
        as many sums as rows the rows can be computed.
        """
        schema = terms.schema
        lags = [getattr(one.settings, "lags", 0) for one in terms.spec_value.wrappers]
        scheme = f"{lags} {schema.conditions(self.name)}"
        if lags and self._first_choice("resamples", scheme) != scheme:
            raise NotAllowed(
                f"silo {self.name}: an earlier run resampled the same rows with other lags or conditions, and many "
                "resamples could be solved for the rows"
            )
        if not schema.complete_rows:
            return
        columns = ", ".join(map(quoted, sorted(terms.declared.decisive(schema.variables))))
        first = self._first_choice("complete columns", columns)
        if first != columns:
            raise NotAllowed(
                f"silo {self.name}: an earlier run dropped rows with an empty cell in {first}, and the difference of "
                "both could be over rows of few silos"
            )

    def _secret_seed(self, terms: RunTerms) -> int | None:
        """The seed of resamples; None if the coordinator may choose it.

        Another coordinator must not know which rows are in a sum, must not get more sums by more seeds, and must not
        compare sums over the same places of rows after some rows have changed. So the seed depends on the owner's
        secret and on the rows.
        """
        owned = self._guard.remote or self._guard.restricted or self._min_changed_rows(terms)
        if not (owned and terms.spec_value.wrappers):
            return None
        rows = self._fingerprint if self._fingerprint is not None and self._fingerprint.digest else None
        return int(self._source.seal("resamples", now=rows), 16)

    def _min_changed_rows(self, terms: RunTerms) -> int:
        """The minimum number of rows that must change between two publications; 0 means no minimum."""
        exempt = self._gate.is_excused(terms.algorithm()) or not self._source.durable
        return 0 if exempt else self._guard.changed_rows(terms)

    def _check_changes(self, terms: RunTerms, *, record: bool) -> None:
        """Raise `FewRowsChanged` if too few rows have changed since an earlier publication.

        With `record`, the publication that follows is recorded, once while the rows in memory are the same. Every round
        asks, because rows can change between two rounds of a run whose coordinator gives it another name.
        """
        publications, key, least = (
            self._source.publications(self._journal),
            self._table_key(terms),
            self._min_changed_rows(terms),
        )
        assert publications is not None
        if self._journal.names_version(self._published.get(key, "")):
            return
        with self._guard.reading(self.name):
            if key not in self._versions:
                seal = self._source.seal("publication", now=self._fingerprint)
                self._versions[key] = version_under(terms, self.name, self._table(terms), self._journal.key, seal)
            if record:
                self._published[key] = publications.record(self.name, self._versions[key], least)
            else:
                publications.check(self.name, self._versions[key], least)

    def _table(self, terms: RunTerms) -> Any:
        key = self._table_key(terms)
        if key not in self._tables:
            with self._guard.reading(self.name):
                table = self._source.read(self.name, terms.schema, terms.declared)
            guarded = self._guard.remote and isinstance(table, Divided)
            self._tables[key] = GuardedPasses(table, self._guard, self.name) if guarded else table
        return self._tables[key]

    def _clusters(self, terms: RunTerms) -> NDArray[np.int64] | None:
        """The clusters of the rows, `[n_rows]`; None if no column names them."""
        with self._guard.reading(self.name):
            return self._source.clusters(self.name, terms.schema, terms.declared)

    def _table_key(self, terms: RunTerms) -> tuple[Any, ...]:
        """The parts of the terms that determine rows, columns and codes.

        Whether incomplete rows are dropped is no part of it: if as many rows are left, none was dropped.
        """
        schema, declared = terms.schema, terms.declared
        own = (schema.rows[self.name], schema.stretches.get(self.name), schema.condition_names.get(self.name))
        key = (*own, schema.kind, schema.variables, *schema.levels.items(), declared.form)
        far = (declared.reading.outliers, *schema.transforms.items())  # outliers are defined on the transformed scale
        return (*key, *far, *schema.dates.items(), *declared.marks.items(), declared.reading.private)


@lru_cache(maxsize=1)
def _binding_of(broadcast: bytes, terms: str, rows: str) -> str:
    """The binding of an answer; cached, because without rows it is the same for all silos of this process."""
    return binding_digest(broadcast, terms, rows)


@lru_cache(maxsize=1)
def _message(kind: Any, packed: bytes) -> Any:
    """The broadcast `packed`, decoded once for all silos of this process; algorithms must not modify it."""
    message = wire.decode(kind, packed)
    require_bounded(message)
    return message
