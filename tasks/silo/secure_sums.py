"""A silo's side of secure sums: its keys, which stay in memory, and the questions it refuses to answer.

The keys are made for one attempt at one sum and are never written to disk. A worker that dies loses them, and the
coordinator begins another attempt. The journal records which sum of a round the silo helped to unmask, so that nobody
obtains two different sums of the same replies.
"""

import secrets
from collections.abc import Callable
from dataclasses import dataclass

from fedbnsl.algorithms.core.protocol import Sparse
from fedbnsl.algorithms.core.schema import Schema
from fedbnsl.algorithms.secure.exchange import COORDINATOR, answer
from fedbnsl.algorithms.secure.masked import session_of
from fedbnsl.algorithms.secure.masks import Phase, Refused, Ring, SecureSession
from fedbnsl.algorithms.secure.messages import read, read_names
from fedbnsl.algorithms.secure.participant import Participant

from .journal import Journal


@dataclass(frozen=True)
class SecureSumRequest:
    """What the coordinator asks in one phase of a secure sum."""

    phase: Phase
    message: bytes
    broadcast: bytes = b""
    """of the round; only in phase "mask" """
    sparse: Sparse | None = None
    """the public positions outside which summands are zero; only in phase "mask" """


class SecureSums:
    """The secure sums that one silo takes part in."""

    def __init__(self, silo: str, journal: Journal) -> None:
        """Start without keys; `journal` knows the sums that `silo` has helped to unmask before."""
        self._silo = silo
        self._journal = journal
        self._participants: dict[tuple[str, int], Participant] = {}
        """(run, round) -> this silo's state in the attempt under way"""

    def answer(
        self, run: str, number: int, schema: Schema, question: SecureSumRequest, summand: Callable[[], Ring]
    ) -> bytes:
        """The silo's answer to a question about the sum of round `number`; `summand` gives what it adds.

        Raises `Refused` if the session is not the one of this round, or if another sum of it has been unmasked.
        """
        if question.phase == "advertise":
            self._check_terms(run, number, schema, question.message)
        if question.phase == "unmask":
            self._check_only_sum(run, number, question.message)
        state, answered = answer(
            self._participants.get((run, number)),
            question.phase,
            question.message,
            silo=self._silo,
            entropy=secrets.token_bytes(32),
            vector=summand,
        )
        self._participants[run, number] = state
        if question.phase == "unmask":
            del self._participants[run, number]
        return answered

    def forget(self, run: str) -> None:
        """Drop the keys of a run that is over."""
        self._participants = {key: state for key, state in self._participants.items() if key[0] != run}

    def _check_terms(self, run: str, number: int, schema: Schema, message: bytes) -> None:
        """Refuse a session with another round, other silos or another threshold than the public ones."""
        asked = read(SecureSession, message, COORDINATOR)
        if asked != session_of(run, number, asked.attempt, schema):
            raise Refused(f"{self._silo} refuses to advertise: the terms are not those of round {number} of run {run}")

    def _check_only_sum(self, run: str, number: int, message: bytes) -> None:
        """Refuse to unmask a second, different sum of a round."""
        survivors = tuple(sorted(read_names(message, COORDINATOR)))
        if not self._journal.one_sum(run, number, survivors):
            raise Refused(f"{self._silo} refuses to unmask: it has helped to unmask another sum of round {number}")
