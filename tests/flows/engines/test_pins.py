"""The properties of rows that a run fixes at its start, and the end of a run after an owner's refusal."""

import pytest

from fedbnsl.algorithms.errors import BadInput
from fedbnsl.flows.engines.resuming import Pin, check_pins
from fedbnsl.flows.job.job import unless_refused
from fedbnsl.tasks.silo.policy import NotAllowed

BEGAN = {"clinic": Pin(100, "seal of clinic"), "lab": Pin(60, "seal of lab")}


def test_a_run_goes_on_with_what_it_began_with():
    check_pins(BEGAN, dict(reversed(BEGAN.items())))


CHANGED = {
    "a silo is away": ({"clinic": BEGAN["clinic"]}, "silo lab took part when the run began, and is not connected"),
    "more rows": (BEGAN | {"lab": Pin(61, "another")}, "silo lab had 60 rows when the run began and has 61"),
    "more rows, of one seal": (BEGAN | {"lab": Pin(61, "seal of lab")}, "silo lab had 60 rows when the run began"),
    "other rows": (BEGAN | {"lab": Pin(60, "another")}, "silo lab has different rows than when the run began"),
    "one silo more": (BEGAN | {"ward": Pin(9, "seal")}, "silo ward did not take part when the run began"),
}


@pytest.mark.parametrize(("now", "reason"), CHANGED.values(), ids=CHANGED)
def test_a_run_does_not_go_on_with_anything_else(now, reason):
    with pytest.raises(BadInput, match=reason):
        check_pins(BEGAN, now)


def raising(error):
    def ask():
        raise error

    return ask


def test_only_an_owners_refusal_stands_in_for_what_was_asked():
    assert unless_refused(lambda: "model", str.upper) == "model"
    assert unless_refused(raising(NotAllowed("no")), str.upper) == "NO"
    for error in (BadInput("rows have changed"), RuntimeError("broken")):
        with pytest.raises(type(error), match=str(error)):
            unless_refused(raising(error), str.upper)
