from dataclasses import dataclass, field

import pytest

from fedbnsl.algorithms.core.protocol import SiloLost
from fedbnsl.algorithms.errors import RunCancelled
from fedbnsl.tasks.silo.messages import MethodCall
from fedbnsl.tasks.transport import federation
from fedbnsl.tasks.transport.federation import (
    BRIEF,
    CHECK_SECONDS,
    Patience,
    Roster,
    SiloTimedOut,
    Waiting,
    wait_for_answer,
)

CALL = MethodCall("describe")
PATIENT = Patience(absent=60.0)
IMPATIENT = Patience(absent=0.0, solve=0.0)


@dataclass
class Scripted:
    """A transport to silos that give one of `answers` per call in turn; `None` means no answer yet."""

    answers: dict[str, list[object]]
    connected: list[tuple[str, ...]] = field(default_factory=list)
    """what `present` returns, look by look; all silos after that"""
    released: list[str] = field(default_factory=list)
    now: float = 0.0
    """the time, which passes only while an answer is awaited"""

    def present(self):
        return self.connected.pop(0) if self.connected else tuple(self.answers)

    def submit(self, silo, call):
        return ScriptedAnswer(silo, self)


@dataclass
class ScriptedAnswer:
    silo: str
    transport: Scripted

    def result(self, timeout):
        left = self.transport.answers[self.silo]
        given = left.pop(0) if left else None
        self.transport.now += timeout
        if isinstance(given, Exception):
            raise given
        if given is None:
            raise TimeoutError
        return given

    def release(self):
        self.transport.released.append(self.silo)


@pytest.fixture
def clock(monkeypatch):
    """Lets the time of a transport pass as its answers are awaited."""

    def follow(transport):
        monkeypatch.setattr(federation.time, "monotonic", lambda: transport.now)
        return transport

    return follow


def test_a_silo_that_returns_in_time_is_waited_for(clock):
    transport = clock(Scripted({"a": [None] * 100 + ["at last"]}, [()] * 10 + [("a",)] + [()] * 9))
    assert wait_for_answer(transport, "a", CALL, PATIENT) == "at last"
    assert transport.released == ["a"]


def test_a_silo_that_is_gone_for_as_long_as_patience_lasts_is_lost(clock):
    transport = clock(Scripted({"a": [None] * 100 + ["too late"]}, [()] * 100))
    with pytest.raises(SiloLost, match="a: its worker has been gone for 60 s"):
        wait_for_answer(transport, "a", CALL, PATIENT)
    assert (transport.released, transport.now) == (["a"], 60.0)


def test_a_silo_that_is_there_and_takes_too_long_is_lost(clock):
    transport = clock(Scripted({"a": [None] * 100 + ["too late"]}))
    with pytest.raises(SiloTimedOut, match="a: no reply within 90 s"):
        wait_for_answer(transport, "a", CALL, Patience(absent=60.0, solve=90.0))


def test_slow_silos_are_named_at_growing_intervals(clock, capsys):
    transport = clock(Scripted({"a": [None] * 130 + ["at last"], "b": []}, [("a",)] * 5 + [()] * 8 + [("a",)] * 14))
    waiting = Waiting(["a", "b"])
    assert wait_for_answer(transport, "a", CALL, Patience(absent=90.0), waiting=waiting) == "at last"
    waiting.tell(())
    transport.now = 240
    waiting.tell(())
    assert capsys.readouterr().err.splitlines() == [
        "note: a, b: no answer for 30 s (not connected)",
        "note: a, b: no answer for 60 s (not connected)",
        "note: b: no answer for 120 s (not connected)",
        "note: a: no answer for 120 s (connected, and may be computing)",
        "note: b: no answer for 240 s (not connected)",
    ]


def test_a_cancelled_run_waits_for_no_solve_and_briefly_for_other_answers(clock):
    transport = clock(Scripted({"a": [None] * 5000}))
    roster = Roster(transport, ("a",), PATIENT, is_cancelled=lambda: transport.now >= 10)
    with pytest.raises(RunCancelled):
        roster.ask({"a": MethodCall("solve")}, tolerates_dropout=True)
    assert transport.now <= 10 + CHECK_SECONDS
    with pytest.raises(SiloLost):
        roster.ask({"a": CALL}, tolerates_dropout=False)
    assert transport.now <= 10 + 2 * CHECK_SECONDS + BRIEF.solve


def test_a_lost_silo_is_given_up_only_where_that_can_be_borne():
    roster = Roster(Scripted({"a": ["one"], "b": []}), ("a", "b"), IMPATIENT)
    calls = dict.fromkeys(roster.silos, CALL)
    with pytest.raises(SiloLost, match="b: no reply"):
        roster.ask(calls, tolerates_dropout=False)
    assert roster.present == ("a", "b")
    roster.transport.answers["a"].append("two")
    assert roster.ask(calls, tolerates_dropout=True) == {"a": "two"}
    assert roster.present == ("a",)
    with pytest.raises(SiloLost, match="b: no reply within 0 s"):
        roster.require_all()


def test_an_error_of_one_silo_is_raised_when_all_have_answered():
    transport = Scripted({"a": [ValueError("of a")], "b": ["one"], "c": []})
    roster = Roster(transport, ("a", "b", "c"), IMPATIENT)

    with pytest.raises(ValueError, match="of a"):
        roster.ask(dict.fromkeys(roster.silos, CALL), tolerates_dropout=True, start=dict)
    assert sorted(transport.released) == ["a", "b", "c"]


def test_a_run_goes_on_while_a_quorum_is_left_and_no_longer():
    transport = Scripted({"a": ["one", "two"], "b": ["one"], "c": []})
    roster = Roster(transport, ("a", "b", "c"), IMPATIENT, quorum=2)
    assert roster.ask(dict.fromkeys(roster.silos, CALL), tolerates_dropout=True) == {"a": "one", "b": "one"}
    with pytest.raises(SiloLost, match="b: no reply within 0 s; 1 silo left, and the quorum is 2") as loss:
        roster.ask(dict.fromkeys(roster.present, CALL), tolerates_dropout=True)
    assert set(loss.value.silos) == {"b", "c"}
