from dataclasses import dataclass, field

import pytest

from fedbnsl.algorithms.core.protocol import SiloLost
from fedbnsl.algorithms.errors import RunCancelled
from fedbnsl.tasks.silo.messages import MethodCall
from fedbnsl.tasks.transport import federation
from fedbnsl.tasks.transport.federation import (
    BRIEF,
    CHECK_SECONDS,
    Liveness,
    Patience,
    Roster,
    SiloTimedOut,
    Waiting,
    wait_for_answer,
)

CALL = MethodCall("charges", (None,))
SOLVE = MethodCall("solve")
PATIENT = Patience(absent=60.0)
IMPATIENT = Patience(absent=0.0, solve=0.0)


@dataclass
class Scripted:
    """A transport to silos that give one of `answers` per call in turn; `None` means no answer yet."""

    answers: dict[str, list[object]]
    connected: list[dict[str, float]] = field(default_factory=list)
    """the silence of the connected silos, look by look; after that, all silos are alive"""
    released: list[str] = field(default_factory=list)
    now: float = 0.0
    """the time, which passes only while an answer is awaited"""

    def silence(self):
        return self.connected.pop(0) if self.connected else dict.fromkeys(self.answers, 0.0)

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
    transport = clock(Scripted({"a": [None] * 150 + ["at last"]}, [{}] * 59 + [{"a": 0.0}] + [{}] * 59))
    assert wait_for_answer(transport, "a", CALL, PATIENT) == "at last"
    assert transport.released == ["a"]


def test_a_silo_that_is_gone_for_as_long_as_patience_lasts_is_lost(clock):
    transport = clock(Scripted({"a": [None] * 100 + ["too late"]}, [{}] * 100))
    with pytest.raises(SiloLost, match=r"a: no response for 60 s \(gone: not connected\)"):
        wait_for_answer(transport, "a", CALL, PATIENT)
    assert (transport.released, transport.now) == (["a"], 60.0)


def test_a_silo_that_is_frozen_for_as_long_as_patience_lasts_is_lost(clock):
    """Time before the call, and time in which it was gone, count alike."""
    transport = clock(Scripted({"a": [None] * 100}, [{}] * 9 + [{"a": float(second)} for second in range(30, 100)]))
    with pytest.raises(SiloLost, match=r"a: no response for 60 s \(frozen: connected, but without a sign of life\)"):
        wait_for_answer(transport, "a", CALL, PATIENT)
    assert transport.now == 60.0


@pytest.mark.parametrize("silence", [0.0, 1.0, 4.9])
def test_a_silo_whose_heartbeats_are_late_is_not_frozen_however_short_the_patience(clock, silence):
    transport = clock(Scripted({"a": [None] * 30 + ["at last"]}, [{"a": silence}] * 30))
    assert wait_for_answer(transport, "a", CALL, Patience(absent=0.5)) == "at last"


def test_a_silo_that_is_alive_is_waited_for_longer_than_patience_lasts(clock):
    transport = clock(Scripted({"a": [None] * 3000 + ["at last"]}))
    assert wait_for_answer(transport, "a", CALL, PATIENT) == "at last"
    assert transport.now > 3000


def test_a_silo_that_is_alive_and_whose_computation_hangs_is_lost(clock):
    transport = clock(Scripted({"a": [None] * 100 + ["too late"]}))
    with pytest.raises(SiloTimedOut, match="a: no reply within 90 s"):
        wait_for_answer(transport, "a", CALL, Patience(absent=60.0, solve=90.0))


def test_slow_silos_are_named_at_growing_intervals(clock, capsys):
    looks = [{"a": 0.0}] * 29 + [{}] * 60 + [{"a": 9.0}] * 31
    transport = clock(Scripted({"a": [None] * 130 + ["at last"], "b": []}, looks))
    waiting = Waiting(["a", "b"])
    assert wait_for_answer(transport, "a", CALL, Patience(absent=90.0), waiting=waiting) == "at last"
    waiting.tell({})
    transport.now = 240
    waiting.tell({"b": 0.0})
    assert capsys.readouterr().err.splitlines() == [
        "note: a, b: no answer for 30 s (gone: not connected)",
        "note: a, b: no answer for 60 s (gone: not connected)",
        "note: b: no answer for 120 s (gone: not connected)",
        "note: a: no answer for 120 s (frozen: connected, but without a sign of life)",
        "note: b: no answer for 240 s (alive: still computing)",
    ]


class TestLiveness:
    """The silence of silos, as one observer counts it; looks take place every second."""

    @pytest.fixture
    def look(self, monkeypatch):
        """A function that looks at a time at which silos have given signs of life."""
        liveness = Liveness()

        def look(now, **signs):
            monkeypatch.setattr(federation.time, "monotonic", lambda: now)
            return liveness.look(lambda: signs)

        return look

    def test_a_silo_is_silent_as_long_as_its_sign_is_the_same(self, look):
        assert look(0, a=1, b=1) == {"a": 0.0, "b": 0.0}
        assert look(1, a=2, b=1) == {"a": 0.0, "b": 1.0}
        assert look(2, a=3, b=1) == {"a": 0.0, "b": 2.0}
        assert look(3, a=4, b=2) == {"a": 0.0, "b": 0.0}
        assert look(4, b=2) == {"b": 1.0}
        assert look(5, a=4, b=2) == {"a": 0.0, "b": 2.0}

    def test_an_observer_that_was_suspended_gives_nobody_up(self, look):
        look(0, a=1)
        assert look(3600, a=1) == {"a": 2.0}
        assert look(3601, a=2) == {"a": 0.0}

    def test_concurrent_waits_share_a_look(self, look):
        look(0, a=1)
        assert look(0.4, a=1) == look(0.4) == {"a": 0.0}
        assert look(0.8, a=1) == {"a": 0.8}


def test_a_cancelled_run_waits_for_no_solve_and_briefly_for_other_answers(clock):
    transport = clock(Scripted({"a": [None] * 5000}))
    roster = Roster(transport, ("a",), PATIENT, is_cancelled=lambda: transport.now >= 10)
    with pytest.raises(RunCancelled):
        roster.ask({"a": MethodCall("solve")}, tolerates_dropout=True)
    assert transport.now <= 10 + CHECK_SECONDS
    with pytest.raises(SiloLost):
        roster.ask({"a": CALL}, tolerates_dropout=False)
    assert transport.now <= 10 + 2 * CHECK_SECONDS + BRIEF.solve


def test_a_lost_silo_is_not_asked_again(capsys):
    roster = Roster(Scripted({"a": ["one"], "b": []}), ("a", "b"), IMPATIENT)
    calls = dict.fromkeys(roster.silos, CALL)
    with pytest.raises(SiloLost, match="b: no reply"):
        roster.ask(calls, tolerates_dropout=False)
    assert roster.present == ("a",)
    assert capsys.readouterr().err == "note: b: no reply within 0 s; not asked again in this run\n"
    roster.transport.answers["a"].append("two")
    calls = dict.fromkeys(roster.present, CALL)
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
    assert roster.ask(dict.fromkeys(roster.silos, SOLVE), tolerates_dropout=True) == {"a": "one", "b": "one"}
    with pytest.raises(SiloLost, match="b: no reply within 0 s; 1 silo left, and the quorum is 2") as loss:
        roster.ask(dict.fromkeys(roster.present, SOLVE), tolerates_dropout=True)
    assert set(loss.value.silos) == {"b", "c"}


def test_calls_after_the_rounds_need_no_quorum():
    roster = Roster(Scripted({"a": ["one"], "b": []}), ("a", "b"), IMPATIENT, quorum=2)
    assert roster.ask(dict.fromkeys(roster.silos, CALL), tolerates_dropout=True) == {"a": "one"}
