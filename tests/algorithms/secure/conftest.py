"""Silos in this process that answer in bytes only, stop answering on request, and keep a transcript."""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
import pytest

from fedbnsl.algorithms.core import wire
from fedbnsl.algorithms.secure.exchange import answer
from fedbnsl.algorithms.secure.masks import RunKey, SecureSession, default_threshold
from fedbnsl.algorithms.secure.participant import Participant


@dataclass
class Silos:
    """A transport. What it keeps in `transcript` is all that the coordinator ever sees."""

    vectors: Mapping[str, np.ndarray]
    silent: Mapping[str, set[str]] = field(default_factory=dict)
    """by phase, the silos that stop answering in it"""
    change: Callable[[str, str, bytes], bytes] = lambda phase, silo, question: question
    """a function that changes a request in transit"""
    states: dict[str, Participant] = field(default_factory=dict)
    transcript: list[tuple[str, str, bytes, bytes]] = field(default_factory=list)
    fresh: str = ""
    """additional input to the session's entropy besides the silo"""

    def ask(self, phase, messages):
        answers = {}
        for silo, question in reversed(messages.items()):
            if silo in self.silent.get(phase, ()):
                continue
            self.states[silo], answers[silo] = answer(
                self._from_disk(silo),
                phase,
                self.change(phase, silo, question),
                silo=silo,
                key=key_of(silo),
                entropy=hashlib.sha256((silo + self.fresh).encode()).digest(),
                vector=lambda silo=silo: self.vectors[silo],
            )
            self.transcript.append((phase, silo, question, answers[silo]))
        return answers

    def _from_disk(self, silo):
        return wire.decode(Participant, wire.encode(self.states[silo])) if silo in self.states else None

    def said(self, phase):
        return {silo: packed for when, silo, _, packed in self.transcript if when == phase}


def key_of(silo: str) -> RunKey:
    """The silo's key in every run of this lab."""
    return RunKey(hashlib.sha256(f"key of {silo}".encode()).digest())


def names(n: int) -> tuple[str, ...]:
    return tuple(f"silo {k:02}" for k in range(n))


def session_of(n: int, threshold: int | None = None, round: int = 1, attempt: int = 1) -> SecureSession:
    return SecureSession("run", round, attempt, names(n), threshold or default_threshold(n))


def vectors_of(n: int, length: int = 20, seed: int = 0, ring=np.uint64) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {silo: rng.integers(0, np.iinfo(ring).max, length, dtype=ring, endpoint=True) for silo in names(n)}


def exact_sum(vectors, silos) -> list[int]:
    """The exact sum by definition, with Python integers, which do not overflow."""
    size = 1 << 8 * vectors[silos[0]].itemsize
    return [sum(int(vectors[silo][i]) for silo in silos) % size for i in range(len(vectors[silos[0]]))]


@dataclass(frozen=True)
class Lab:
    silos = Silos
    names = staticmethod(names)
    session = staticmethod(session_of)
    vectors = staticmethod(vectors_of)
    exact_sum = staticmethod(exact_sum)
    key = staticmethod(key_of)


@pytest.fixture(scope="session")
def lab() -> Lab:
    return Lab()
