"""A silo's side of secure sums on its worker: its keys in memory, and what it will not answer.

Keys live as long as the attempt they were made for, never on disk: a worker that dies takes them along, and the
coordinator begins another attempt. What is on disk is which sum of a round was unmasked, so that nobody gets two
different sums of the same replies.
"""

import secrets
from collections.abc import Callable
from dataclasses import dataclass

from fedbnsl.algorithms.core import wire
from fedbnsl.algorithms.core.schema import Schema
from fedbnsl.algorithms.secure.exchange import answer
from fedbnsl.algorithms.secure.masked import session_of
from fedbnsl.algorithms.secure.masks import Ring
from fedbnsl.algorithms.secure.messages import read, read_names
from fedbnsl.algorithms.secure.participant import Participant
from fedbnsl.algorithms.secure.session import Phase, Refused, Session

from .journal import Journal


@dataclass(frozen=True)
class Question:
    """What the coordinator asks in one phase; broadcast and public positions come with phase "mask"."""

    phase: Phase
    message: bytes
    broadcast: bytes = b""
    sparse: bytes = b""


_participants: dict[tuple[str, str, int], Participant] = {}
"""(silo, run, round) -> its state in the attempt under way"""


def answer_question(
    silo: str, run: str, number: int, schema: Schema, question: Question, vector: Callable[[], Ring], journal: Journal
) -> bytes:
    """Return the silo's answer; raises `Refused` where the terms are not those of this round, or a sum was given."""
    key = (silo, run, number)
    if question.phase == "advertise":
        _check_terms(silo, run, number, schema, question.message)
    if question.phase == "unmask":
        survivors = tuple(sorted(read_names(question.message, "the coordinator")))
        if not journal.one_sum(run, number, survivors):
            raise Refused(f"{silo} refuses to unmask: it has helped to unmask another sum of round {number}")
    state, given = answer(
        _participants.get(key),
        question.phase,
        question.message,
        silo=silo,
        entropy=secrets.token_bytes(32),
        vector=vector,
    )
    _participants[key] = state
    if question.phase == "unmask":
        del _participants[key]
    return given


def _check_terms(silo: str, run: str, number: int, schema: Schema, message: bytes) -> None:
    """Refuse a session that is not of this round, these silos and the threshold they go by."""
    asked = read(Session, message, "the coordinator")
    if asked != session_of(run, number, asked.attempt, schema):
        raise Refused(f"{silo} refuses to advertise: the terms are not those of round {number} of run {run}")


def forget(silo: str, run: str) -> None:
    """Drop the keys of a run that is over."""
    for key in [key for key in _participants if key[:2] == (silo, run)]:
        del _participants[key]


def forget_all() -> None:
    """Drop all keys: when the worker stops."""
    _participants.clear()


def packed(sparse: object) -> bytes:
    """Return public positions as they travel, nothing for none."""
    return wire.encode(sparse) if sparse is not None else b""
