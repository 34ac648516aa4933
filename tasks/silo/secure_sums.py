"""A silo's side of secure sums: its keys in memory, and the requests that it refuses.

Keys are generated for one attempt at one sum and never written to disk. A worker that dies loses them, and the
coordinator starts another attempt. The journal records which sum of a round the silo helped to unmask, so that nobody
obtains two different sums of the same replies.
"""

import secrets
from collections.abc import Callable
from dataclasses import dataclass

from fedbnsl.algorithms.core import wire
from fedbnsl.algorithms.core.protocol import Sparse
from fedbnsl.algorithms.secure.exchange import COORDINATOR, answer
from fedbnsl.algorithms.secure.masked import session_of
from fedbnsl.algorithms.secure.masks import Phase, Refused, Ring, SecureSession
from fedbnsl.algorithms.secure.messages import KEYS_BYTES, read, read_by_silo, read_names
from fedbnsl.algorithms.secure.participant import Participant

from .journal import Journal
from .members import Members
from .runs import RunTerms


@dataclass(frozen=True)
class SecureSumRequest:
    """The coordinator's request in one phase of a secure sum."""

    phase: Phase
    message: bytes
    broadcast: bytes = b""
    """the broadcast of the round; only in phase "mask" """
    sparse: Sparse | None = None
    """the public positions outside which summands are zero; only in phase "mask" """


class SecureSums:
    """The secure sums that one silo takes part in."""

    def __init__(self, silo: str, journal: Journal, members: Members | None = None) -> None:
        """Start without keys; `journal` has the sums that `silo` has already helped to unmask.

        With `members`, its keys are signed, and keys that are not signed by a member are refused.
        """
        self._silo = silo
        self._journal = journal
        self._members = members
        self._participants: dict[tuple[str, int], Participant] = {}
        """(run, round) -> this silo's state in the current attempt"""

    def answer(self, terms: RunTerms, number: int, request: SecureSumRequest, summand: Callable[[], Ring]) -> bytes:
        """The silo's answer to a request about the sum of round `number`; `summand` returns its summand.

        `terms` are those that the coordinator sent. Raises `Refused` if the session does not belong to this round, if
        it is the sum of another exchange, or if a different sum of the round has been unmasked.
        """
        run = terms.run_id
        if request.phase == "advertise":
            self._check_terms(terms, number, request.message)
        if request.phase == "unmask":
            self._check_only_sum(run, number, request.message)
        before = self._participants.get((run, number))
        message = request.message
        if request.phase == "share" and before is not None:
            message = self._checked_keys(before.session, message)
        if request.phase == "mask" and before is not None:
            self._check_exchange(before.session, terms, request)
        state, encoded = answer(
            before,
            request.phase,
            message,
            silo=self._silo,
            entropy=secrets.token_bytes(32),
            vector=summand,
        )
        self._participants[run, number] = state
        if request.phase == "unmask":
            del self._participants[run, number]
        if request.phase == "advertise" and self._members is not None:
            return self._members.attest(state.session, self._silo, encoded)
        return encoded

    def _checked_keys(self, session: SecureSession, message: bytes) -> bytes:
        """The advertised keys without their signatures; raises `Refused` for keys that no member signed."""
        keys = read_by_silo(message, COORDINATOR)
        if self._members is None:
            return wire.encode({peer: packed[:KEYS_BYTES] for peer, packed in keys.items()})
        return wire.encode(
            {peer: self._members.check(session, self._silo, peer, packed, KEYS_BYTES) for peer, packed in keys.items()}
        )

    def forget(self, run: str) -> None:
        """Drop the keys of a finished run."""
        self._participants = {key: state for key, state in self._participants.items() if key[0] != run}

    def _check_terms(self, terms: RunTerms, number: int, message: bytes) -> None:
        """Refuse a session whose round, silos or threshold differ from the public terms."""
        session, run = read(SecureSession, message, COORDINATOR), terms.run_id
        if session != session_of(run, number, session.attempt, terms.schema, session.exchange):
            raise Refused(f"{self._silo} refuses to advertise: the terms are not those of round {number} of run {run}")

    def _check_exchange(self, session: SecureSession, terms: RunTerms, request: SecureSumRequest) -> None:
        """Refuse to add to the sum of another exchange: keys are bound to the session, so all silos check the same."""
        if session.exchange != terms.exchange_digest(request.broadcast, request.sparse):
            raise Refused(
                f"{self._silo} refuses to mask: its settings, schema or broadcast are not those of this secure sum"
            )

    def _check_only_sum(self, run: str, number: int, message: bytes) -> None:
        """Refuse to unmask a second, different sum of a round."""
        survivors = tuple(sorted(read_names(message, COORDINATOR)))
        if not self._journal.record_sum(run, number, survivors):
            raise Refused(f"{self._silo} refuses to unmask: it has helped to unmask another sum of round {number}")
