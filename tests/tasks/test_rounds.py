"""The steps of a run as tasks: which tasks, in which order, what they return, and what a failed Prefect does."""

from functools import partial
from threading import Barrier, Event, Thread, Timer

import pytest

from fedbnsl.algorithms.core.protocol import SiloLost
from fedbnsl.algorithms.errors import BadInput, RunCancelled
from fedbnsl.algorithms.secure.masks import Aborted
from fedbnsl.tasks import rounds
from fedbnsl.tasks.rounds import MAX_SILO_TASKS, SIGNAL, Orchestration, may_pass

REPETITIONS = 2


class Ran:
    """A task run of `Threads`."""

    def __init__(self, name, work):
        self.name, self.error = name, None
        self.thread = Thread(target=self.attempt, args=(work,))

    def attempt(self, work):
        for left in reversed(range(REPETITIONS + 1)):
            try:
                work()
            except Exception as error:
                self.error = error
                if left and may_pass(error):
                    continue
            else:
                self.error = None
            return

    def wait(self, seconds):
        self.thread.join(seconds)
        return None if self.thread.is_alive() else str(self.error or "")


class Threads:
    """Runs tasks in threads as Prefect does; `recorded` has (task, name, "done" or the kind of error) in order."""

    def __init__(self):
        self.runs, self.sources = [], {}

    def submit(self, task, name, work, after):
        run = Ran(name, work)
        self.runs.append((task, run))
        self.sources[name] = {one.name for one in after}
        run.thread.start()
        return run

    def perform(self, task, name, work, after):
        run = Ran(name, work)
        self.runs.append((task, run))
        self.sources[name] = {one.name for one in after}
        run.attempt(work)
        run.wait = lambda seconds: str(run.error or "")
        return run

    @property
    def recorded(self):
        for _, run in self.runs:
            run.wait(None)
        return [(task, run.name, type(run.error) if run.error else "done") for task, run in self.runs]


class Deaf:
    """Tasks of a Prefect that starts nothing."""

    def submit(self, task, name, work, after):
        return self

    perform = submit

    def wait(self, seconds):
        return "no server"


@pytest.fixture
def tasks():
    return Threads()


@pytest.fixture
def given_up():
    return []


@pytest.fixture
def said():
    return []


@pytest.fixture
def orchestration(tasks, given_up, said):
    return Orchestration(tasks, lambda: given_up.append("given up"), said.append)


def failing(times, error):
    """Work that first fails a given number of times, and the list of its attempts."""
    attempts = []

    def work():
        attempts.append(len(attempts) + 1)
        if len(attempts) <= times:
            raise error
        return "solved"

    return work, attempts


def test_a_step_returns_what_it_found_and_is_recorded(orchestration, tasks):
    assert orchestration.perform("aggregate", "round 3", lambda: 7) == 7
    assert tasks.recorded == [("aggregate", "aggregate round 3", "done")]


def test_what_a_step_raises_is_raised_and_recorded(orchestration, tasks):
    def wrong():
        raise BadInput("a row is wrong")

    with pytest.raises(BadInput, match="a row is wrong"):
        orchestration.perform("evaluate", "", wrong)
    assert tasks.recorded == [("evaluate", "evaluate", BadInput)]
    assert orchestration.connected


def test_each_silo_solves_in_a_run_of_its_own(orchestration, tasks):
    waits = orchestration.solves("round 4")({silo: silo.upper for silo in ("a", "b")})
    assert {silo: wait() for silo, wait in waits.items()} == {"a": "A", "b": "B"}
    assert sorted(tasks.recorded) == [("local_solve", f"local_solve {silo} round 4", "done") for silo in ("a", "b")]


def test_each_step_names_those_whose_results_it_uses(orchestration, tasks):
    for label in ("round 1", "diagnosis 1"):
        for wait in orchestration.solves(label)({silo: silo.upper for silo in ("a", "b")}).values():
            wait()
        for task in ("aggregate", "dual_update", "check_convergence"):
            orchestration.perform(task, label, lambda: None)
    assert tasks.sources["local_solve a round 1"] == set()
    assert tasks.sources["aggregate round 1"] == {"local_solve a round 1", "local_solve b round 1"}
    assert tasks.sources["dual_update round 1"] == {"aggregate round 1"}
    assert tasks.sources["check_convergence round 1"] == {"dual_update round 1"}
    for silo in ("a", "b"):
        assert tasks.sources[f"local_solve {silo} diagnosis 1"] == {"check_convergence round 1"}
    assert tasks.sources["aggregate diagnosis 1"] == {"local_solve a diagnosis 1", "local_solve b diagnosis 1"}


@pytest.mark.parametrize("wrong", [None, "silo-3"])
def test_many_silos_share_one_task_and_each_has_its_own_result(orchestration, tasks, wrong):
    together = Barrier(MAX_SILO_TASKS + 1, timeout=10)

    def solve(silo):
        together.wait()
        if silo == wrong:
            raise BadInput("a row is wrong")
        return silo

    silos = [f"silo-{k}" for k in range(MAX_SILO_TASKS + 1)]
    waits = orchestration.solves("round 2")({silo: partial(solve, silo) for silo in silos})
    for silo in silos:
        if silo == wrong:
            with pytest.raises(BadInput, match="a row is wrong"):
                waits[silo]()
        else:
            assert waits[silo]() == silo
    name = f"local_solve {len(silos)} silos round 2"
    assert tasks.recorded == [("local_solve", name, BadInput if wrong else "done")]
    orchestration.perform("aggregate", "round 2", lambda: None)
    assert tasks.sources["aggregate round 2"] == {name}


def test_a_repeated_task_repeats_only_the_solves_that_failed(orchestration):
    work, tried = failing(1, ConnectionError("the line was cut"))
    others = dict.fromkeys([f"silo-{k}" for k in range(MAX_SILO_TASKS)], lambda: calls.append(1))
    calls = []
    waits = orchestration.solves("round 1")({"s": work, **others})
    assert waits["s"]() == "solved"
    assert (len(tried), len(calls)) == (2, MAX_SILO_TASKS)


def test_a_long_run_has_one_task_a_round_and_says_so_once(orchestration, tasks, said, monkeypatch):
    monkeypatch.setattr(rounds, "MAX_TASKS", 6)
    for number in (1, 2, 3, 4):
        for wait in orchestration.solves(f"round {number}")({silo: silo.upper for silo in ("a", "b")}).values():
            wait()
        for task in ("aggregate", "dual_update", "check_convergence"):
            assert orchestration.perform(task, f"round {number}", lambda: 7) == 7
    names = [name for _, name, _ in tasks.recorded]
    assert len(names) == 2 * 5 + 2
    assert names[-3:] == ["check_convergence round 2", "local_solve 2 silos round 3", "local_solve 2 silos round 4"]
    assert said == ["from round 3 on, each round is one task: the run has had 10 task runs"]


def test_the_silos_solve_at_the_same_time(orchestration):
    together = Barrier(3, timeout=10)
    waits = orchestration.solves("round 1")(dict.fromkeys(("a", "b", "c"), together.wait))
    assert sorted(wait() for wait in waits.values()) == [0, 1, 2]


@pytest.mark.parametrize(
    ("error", "passes"),
    [
        (ConnectionError("the line was cut"), True),
        (BadInput("no number"), False),
        (RunCancelled(), False),
        (SiloLost(("s",), "gone"), False),
        (Aborted("no sum"), False),
        (KeyboardInterrupt(), False),
    ],
)
def test_only_an_error_that_may_pass_is_repeated(error, passes):
    assert may_pass(error) == passes


def test_the_coordinators_steps_are_recorded_under_their_round(orchestration, tasks):
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
    assert tasks.recorded == [(name, f"{name} round 5", "done") for name in names]


def test_once_prefect_is_gone_it_is_said_once_and_nothing_is_reported(orchestration, tasks, given_up, capsys):
    reported = []
    orchestration.report(lambda: reported.append("first"))
    orchestration.report(lambda: 1 / 0)
    orchestration.report(lambda: reported.append("second"))
    assert orchestration.perform("aggregate", "round 1", lambda: 7) == 7
    orchestration.lost("refused by the server")
    assert reported == ["first"]
    assert given_up == ["given up"]
    assert capsys.readouterr().err.count("Prefect no longer responds (division by zero)") == 1


def test_a_prefect_that_starts_nothing_does_not_stop_a_run(given_up, capsys):
    orchestration = Orchestration(Deaf(), lambda: given_up.append("given up"))
    waits = orchestration.solves("round 1")({silo: silo.upper for silo in ("a", "b")})
    assert {silo: wait() for silo, wait in waits.items()} == {"a": "A", "b": "B"}
    assert orchestration.perform("aggregate", "round 1", lambda: 7) == 7
    assert given_up == ["given up"]
    assert capsys.readouterr().err.count("Prefect no longer responds (no server)") == 1


class Stuck:
    """Tasks of a Prefect that never starts one, and never says so, until `begin` is set."""

    def __init__(self):
        self.begin, self.works, self.threads = Event(), [], []

    def submit(self, task, name, work, after):
        self.works.append(work)
        return self

    perform = submit

    def wait(self, seconds):
        return None if not self.begin.wait(min(seconds, 0.05)) else ""


def test_a_task_run_that_never_starts_is_awaited_only_while_prefect_is_connected(given_up):
    """If Prefect starts it late, even while the run does its work, nothing is done twice."""
    tasks, done = Stuck(), []
    orchestration = Orchestration(tasks, lambda: given_up.append("given up"))

    def solve():
        done.append("a")
        if len(done) == 1:
            tasks.works[0]()

    (wait,) = orchestration.solves("round 1")({"a": solve}).values()
    Timer(0.3, orchestration.lost, ["no server"]).start()
    wait()
    tasks.works[0]()
    assert done == ["a"]
    assert given_up == ["given up"]


class TestCancellation:
    def test_after_a_request_no_step_begins(self, orchestration):
        orchestration.cancellation.request()
        with pytest.raises(RunCancelled):
            orchestration.perform("aggregate", "round 1", partial(orchestration.cancellation.perform, lambda: 7))

    @pytest.mark.parametrize("ask", ["thread", "signal"])
    def test_a_request_ends_a_step_in_progress(self, orchestration, ask):
        import os

        cancellation, ended = orchestration.cancellation, Event()
        request = cancellation.request if ask == "thread" else lambda: os.kill(os.getpid(), SIGNAL)

        def endless():
            while not ended.wait(0.01):
                pass

        timers = [Timer(0.2, request), Timer(10, ended.set)]
        with cancellation.listening():
            for timer in timers:
                timer.start()
            with pytest.raises(RunCancelled):
                orchestration.perform("aggregate", "round 1", partial(cancellation.perform, endless))
        timers[1].cancel()
        assert cancellation.is_requested()

    def test_a_request_between_two_steps_interrupts_nothing_else(self, orchestration):
        with orchestration.cancellation.listening():
            orchestration.cancellation.request()
            written = sum(range(100_000))
        assert written == 4_999_950_000
