"""The number of silos with which a run continues: exactly the quorum suffices, one less stops it with a reason."""

import pytest

from fedbnsl.algorithms.core.protocol import SiloLost
from fedbnsl.tasks.silo.messages import MethodCall
from fedbnsl.tasks.transport.federation import Patience, Roster

SILOS = ("a", "b", "c", "d")


class Silent:
    """A transport on which some silos never answer."""

    def __init__(self, silent):
        self.silent = set(silent)

    def present(self):
        return tuple(silo for silo in SILOS if silo not in self.silent)

    def silence(self):
        return dict.fromkeys(self.present(), 0.0)

    def submit(self, silo, call):
        return Answer(silo, silo in self.silent)


class Answer:
    def __init__(self, silo, never):
        self.silo, self.never = silo, never

    def result(self, timeout):
        if self.never:
            raise TimeoutError
        return f"answer of {self.silo}"

    def release(self):
        pass


def asked(silent, quorum, *, tolerates_dropout=True, gone=()):
    roster = Roster(Silent(silent), SILOS, Patience(absent=0.0), dict.fromkeys(gone, "it went before"), quorum)
    calls = dict.fromkeys(roster.present, MethodCall("solve"))
    return roster, roster.ask(calls, tolerates_dropout=tolerates_dropout)


@pytest.mark.parametrize(("silent", "quorum"), [("d", 3), ("cd", 2), ("bcd", 1), ("", 4)])
def test_a_quorum_goes_on_without_the_others(silent, quorum):
    roster, answers = asked(silent, quorum)
    left = [silo for silo in SILOS if silo not in silent]
    assert answers == {silo: f"answer of {silo}" for silo in left}
    assert roster.present == tuple(left)
    assert roster.lost == dict.fromkeys(silent, "no response for 0 s (gone: not connected)")


@pytest.mark.parametrize(
    ("silent", "quorum", "left"), [("d", 4, "3 silos"), ("cd", 3, "2 silos"), ("bcd", 2, "1 silo")]
)
def test_fewer_than_a_quorum_end_the_run(silent, quorum, left):
    with pytest.raises(SiloLost) as lost:
        asked(silent, quorum)
    assert lost.value.silos == tuple(silent)
    assert lost.value.reason == f"no response for 0 s (gone: not connected); {left} left, and the quorum is {quorum}"


def test_silos_that_went_before_count_as_lost():
    roster, answers = asked("d", 2, gone="a")
    assert (sorted(answers), roster.present) == (["b", "c"], ("b", "c"))
    with pytest.raises(SiloLost, match=r"2 silos left, and the quorum is 3"):
        asked("d", 3, gone="a")


def test_what_bears_no_loss_ends_with_the_first_silent_silo():
    with pytest.raises(SiloLost) as lost:
        asked("b", 1, tolerates_dropout=False)
    assert (lost.value.silos, lost.value.reason) == (("b",), "no response for 0 s (gone: not connected)")
    roster, _ = asked("", 1, gone="c")
    with pytest.raises(SiloLost, match="it went before"):
        roster.require_all()
