"""The steps of a run: where they are recorded, with and without Prefect, and which are repeated after an error."""

from contextlib import contextmanager
from functools import partial
from uuid import uuid4

import pytest

from fedbnsl.algorithms.core.protocol import SiloLost
from fedbnsl.algorithms.errors import BadInput
from fedbnsl.algorithms.secure.masks import Aborted
from fedbnsl.tasks import rounds
from fedbnsl.tasks.rounds import MAX_SILO_TASKS, RETRIES, Orchestration, with_retries


@pytest.fixture
def recorded():
    """The recorded steps: (task, name, "done" or the error)."""
    return []


@pytest.fixture
def given_up():
    return []


@pytest.fixture
def sources():
    """The names of the steps whose results a step uses, by its name."""
    return {}


@pytest.fixture
def orchestration(recorded, given_up, sources):
    names = {}

    @contextmanager
    def record(task, name, used):
        sources[name] = {names[one] for one in used}
        names[number := uuid4()] = name
        try:
            yield number
        except Exception as error:
            recorded.append((task, name, type(error)))
            raise
        recorded.append((task, name, "done"))

    return Orchestration(record, lambda: given_up.append("given up"))


def failing(times, error):
    """Work that first fails a given number of times, and the list of its attempts."""
    attempts = []

    def work():
        attempts.append(len(attempts) + 1)
        if len(attempts) <= times:
            raise error
        return "solved"

    return work, attempts


@pytest.fixture
def no_pause(monkeypatch):
    monkeypatch.setattr(rounds, "RETRY_PAUSE_SECONDS", 0)


def test_a_step_returns_what_it_found_and_is_recorded(orchestration, recorded):
    assert orchestration.perform("aggregate", "round 3", lambda: 7) == 7
    assert recorded == [("aggregate", "aggregate round 3", "done")]


def test_what_a_step_raises_is_raised_and_recorded(orchestration, recorded):
    def wrong():
        raise BadInput("a row is wrong")

    with pytest.raises(BadInput, match="a row is wrong"):
        orchestration.perform("evaluate", "", wrong)
    assert recorded == [("evaluate", "evaluate", BadInput)]
    assert orchestration.connected


def test_each_silo_solves_in_a_run_of_its_own(orchestration, recorded):
    waits = orchestration.solves("round 4")({silo: silo.upper for silo in ("a", "b")})
    assert {silo: wait() for silo, wait in waits.items()} == {"a": "A", "b": "B"}
    assert sorted(recorded) == [("local_solve", f"local_solve {silo} round 4", "done") for silo in ("a", "b")]


def test_each_step_names_those_whose_results_it_uses(orchestration, sources):
    for label in ("round 1", "diagnosis 1"):
        for wait in orchestration.solves(label)({silo: silo.upper for silo in ("a", "b")}).values():
            wait()
        for task in ("aggregate", "dual_update", "check_convergence"):
            orchestration.perform(task, label, lambda: None)
    assert sources["local_solve a round 1"] == set()
    assert sources["aggregate round 1"] == {"local_solve a round 1", "local_solve b round 1"}
    assert sources["dual_update round 1"] == {"aggregate round 1"}
    assert sources["check_convergence round 1"] == {"dual_update round 1"}
    for silo in ("a", "b"):
        assert sources[f"local_solve {silo} diagnosis 1"] == {"check_convergence round 1"}
    assert sources["aggregate diagnosis 1"] == {"local_solve a diagnosis 1", "local_solve b diagnosis 1"}


@pytest.mark.parametrize("wrong", [None, "silo-3"])
def test_many_silos_share_one_step_that_ends_with_the_last(orchestration, recorded, sources, wrong):
    from threading import Event

    last = Event()

    def solve(silo):
        assert silo != "silo-0" or last.wait(10)
        if silo == wrong:
            raise BadInput("a row is wrong")
        return silo

    silos = [f"silo-{k}" for k in range(MAX_SILO_TASKS + 1)]
    waits = orchestration.solves("round 2")({silo: partial(solve, silo) for silo in silos})
    for silo in silos[1:]:
        if silo == wrong:
            with pytest.raises(BadInput, match="a row is wrong"):
                waits[silo]()
        else:
            assert waits[silo]() == silo
    assert recorded == []
    last.set()
    assert waits["silo-0"]() == "silo-0"
    name = f"local_solve {len(silos)} silos round 2"
    assert recorded == [("local_solve", name, BadInput if wrong else "done")]
    orchestration.perform("aggregate", "round 2", lambda: None)
    assert sources["aggregate round 2"] == {name}


def test_the_silos_solve_at_the_same_time(orchestration):
    from threading import Barrier

    together = Barrier(3, timeout=10)
    waits = orchestration.solves("round 1")(dict.fromkeys(("a", "b", "c"), together.wait))
    assert sorted(wait() for wait in waits.values()) == [0, 1, 2]


@pytest.mark.parametrize("times", [0, 1, RETRIES])
def test_a_solve_that_may_yet_succeed_is_tried_again(orchestration, times, no_pause):
    work, tried = failing(times, ConnectionError("the line was cut"))
    assert orchestration.solves("round 1")({"s": work})["s"]() == "solved"
    assert len(tried) == times + 1


def test_a_solve_is_given_up_in_the_end(no_pause):
    work, tried = failing(9, ConnectionError("the line was cut"))
    with pytest.raises(ConnectionError):
        with_retries(work)
    assert len(tried) == RETRIES + 1


@pytest.mark.parametrize("error", [BadInput("no number"), SiloLost(("s",), "gone"), Aborted("no sum")])
def test_what_will_not_succeed_is_not_tried_again(orchestration, error, no_pause):
    work, tried = failing(9, error)
    with pytest.raises(type(error)):
        orchestration.solves("round 1")({"s": work})["s"]()
    assert tried == [1]


def test_the_coordinators_steps_are_recorded_under_their_round(orchestration, recorded):
    from fedbnsl.algorithms import registry

    algorithm = registry.build(registry.specify("notears-admm"))
    plain = partial(type(algorithm), **{name: lambda *a, n=name: n for name in ("aggregate", "dual_update")})
    made = {**vars(algorithm), "aggregate": None, "dual_update": None, "converged": lambda server: True}
    del made["aggregate"], made["dual_update"]
    wrapped = orchestration.wrap(plain(**made), lambda: "round 5")
    assert wrapped.aggregate(None, None) == "aggregate"
    assert wrapped.dual_update(None) == "dual_update"
    assert wrapped.converged(None) is True
    names = ["aggregate", "dual_update", "check_convergence"]
    assert recorded == [(name, f"{name} round 5", "done") for name in names]


def test_once_prefect_is_gone_it_is_said_once_and_nothing_is_recorded(orchestration, recorded, given_up, capsys):
    orchestration.report(lambda: recorded.append("first"))
    orchestration.report(lambda: 1 / 0)
    orchestration.report(lambda: recorded.append("second"))
    assert orchestration.perform("aggregate", "round 1", lambda: 7) == 7
    orchestration.lost(ConnectionError("refused\nby the server"))
    assert recorded == ["first"]
    assert given_up == ["given up"]
    assert capsys.readouterr().err.count("Prefect no longer responds (division by zero)") == 1
