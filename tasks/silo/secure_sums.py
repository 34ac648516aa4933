"""The secure sums that a silo takes part in: the keys of the masks, and refusals that keep one sum per round.

`SecureSums` has the keys of the masked sums and refuses requests that would unmask more than these sums. A silo
generates one key per run. It derives the keys of each attempt at a sum from this key and from fresh secrets. Keys are
never written to disk. If a worker dies, its keys are lost, and the coordinator starts another attempt. The journal
records which sum of a round the silo helped to unmask, so that nobody obtains two different sums of the same replies.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass

from fedbnsl.algorithms.core import wire
from fedbnsl.algorithms.core.protocol import Sparse
from fedbnsl.algorithms.secure.exchange import COORDINATOR, answer, read_survivors
from fedbnsl.algorithms.secure.masked_round import session_of
from fedbnsl.algorithms.secure.masks import PROTOCOL, Phase, Refused, Ring, RunKey, SecureSession
from fedbnsl.algorithms.secure.messages import KEYS_BYTES, read_by_silo, read_session
from fedbnsl.algorithms.secure.participant import Participant
from fedbnsl.algorithms.secure.sparse import ADVERTISED_BYTES, pack_keys, read_keys

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

        With `members`, the silo signs its keys, and refuses keys that are not signed by a member.
        """
        self._silo = silo
        self._journal = journal
        self._members = members
        self._keys: dict[str, RunKey] = {}
        """run -> this silo's key for the rounds and the steps of the run; new after a restart"""
        self._participants: dict[tuple[str, int], Participant] = {}
        """(run, round) -> this silo's state in the current attempt"""

    def answer(
        self, terms: RunTerms, number: int, request: SecureSumRequest, summand: Callable[[], Ring] | None = None
    ) -> bytes:
        """The silo's answer to a request about the sum of round `number`; phase "mask" needs `summand`, its summand.

        `terms` are the terms as the coordinator sent them. Raises `Refused` if the session has another round or other
        terms, if a key has no signature of a member, if the phase is not the next one, or if the silo has helped to
        unmask a different sum of the round.
        """
        run = terms.run_id
        if request.phase == "advertise":
            self._check_terms(terms, number, request.message)
        if request.phase == "unmask":
            self._check_only_sum(run, number, request.message)
        before = self._participants.get((run, number))
        message = request.message
        if before is not None and request.phase == ("mask" if before.session.sparse else "share"):
            message = self._checked_keys(before.session, message)
        if request.phase == "mask" and before is not None:
            self._check_exchange(before.session, terms, request)
        state, encoded = answer(
            before,
            request.phase,
            message,
            silo=self._silo,
            key=self._key(terms.pinned_run),
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
        if session.sparse:
            keys, size = read_keys(session, self._silo, message, COORDINATOR), ADVERTISED_BYTES
        else:
            keys, size = read_by_silo(message, COORDINATOR), KEYS_BYTES
        checked = {
            peer: packed[:size]
            if self._members is None
            else self._members.check(session, self._silo, peer, packed, size)
            for peer, packed in keys.items()
        }
        if checked == keys:
            return message
        return pack_keys(session, self._silo, checked) if session.sparse else wire.encode(checked)

    def _key(self, run: str) -> RunKey:
        if run not in self._keys:
            self._keys[run] = RunKey(secrets.token_bytes(32))
        return self._keys[run]

    def forget_key(self, run: str) -> None:
        """Drop the key of a finished run, which its steps used, too."""
        self._keys.pop(run, None)

    def abandon(self, run: str) -> None:
        """Drop the current attempts at sums of a run."""
        self._participants = {key: state for key, state in self._participants.items() if key[0] != run}

    def _check_terms(self, terms: RunTerms, number: int, message: bytes) -> None:
        """Refuse a session whose round, silos or threshold differ from the public terms."""
        session, run = read_session(message, COORDINATOR), terms.run_id
        if session.protocol != PROTOCOL:
            other = session.protocol or "an earlier version"
            raise Refused(
                f"{self._silo} refuses to advertise: it uses {PROTOCOL}, and the coordinator {other}: "
                "both need the same version of fedbnsl"
            )
        expected = session_of(run, number, session.attempt, terms.schema, session.exchange, session.silos)
        if session != expected:
            raise Refused(f"{self._silo} refuses to advertise: the terms are not those of round {number} of run {run}")

    def _check_exchange(self, session: SecureSession, terms: RunTerms, request: SecureSumRequest) -> None:
        """Refuse to mask unless `session` has the digest of this silo's settings, schema, broadcast and positions.

        All silos of a session check the same digest, because their keys are bound to the session.
        """
        if session.exchange != terms.exchange_digest(request.broadcast, request.sparse):
            raise Refused(
                f"{self._silo} refuses to mask: its settings, schema or broadcast are not those of this secure sum"
            )

    def survivors(self, run: str, number: int, message: bytes) -> tuple[str, ...]:
        """The silos, sorted, whose sum `message` asks to unmask; raises as `read_survivors` does."""
        return tuple(sorted(read_survivors(self._participants.get((run, number)), message)))

    def _check_only_sum(self, run: str, number: int, message: bytes) -> None:
        """Refuse to unmask a second, different sum of a round."""
        survivors = self.survivors(run, number, message)
        if not self._journal.record_sum(run, number, survivors):
            raise Refused(f"{self._silo} refuses to unmask: it has helped to unmask another sum of round {number}")
