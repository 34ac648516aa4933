"""The steps of a run as tasks, and the threads in which silos are called concurrently.

A round has four tasks: `local_solve` (one per silo, or one for more than `MAX_SILO_TASKS` silos), `aggregate`,
`dual_update` and `check_convergence`. `Orchestration` starts them through `Tasks`, which Prefect implements
(`tasks/prefect_tasks.py`), so that retries, tags and limits of concurrency are Prefect's own. Each task waits for the
tasks whose results it uses.

The results of a step stay in this process: a task returns nothing, and a step that Prefect could not start runs
without Prefect. So a Prefect server that fails does not stop a run.
"""

import _thread
import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from typing import Any, Literal, Protocol, TypeVar

from fedbnsl.algorithms.core.protocol import FederatedAlgorithm, SiloLost
from fedbnsl.algorithms.errors import BadInput, RunCancelled
from fedbnsl.algorithms.secure.masks import Aborted
from fedbnsl.tracking.staging import first_line, notice

Work = Callable[[], Any]
"""the work of a step for one silo, or of the coordinator"""

Wait = Callable[[], Any]
"""function that waits for the end of the work, then returns its result or raises its exception"""

Start = Callable[[Mapping[str, Work]], Mapping[str, Wait]]
"""function that starts the work for all silos"""

MAX_THREADS = 1024
"""maximum number of silos called concurrently; calls of further silos are queued"""
# One pool for all rounds: starting eight threads while others are busy takes 20 ms, a sixth of a round.
_THREADS = ThreadPoolExecutor(MAX_THREADS, thread_name_prefix="silo")


def run_on_wait(works: Mapping[str, Work]) -> Mapping[str, Wait]:
    """Start nothing yet: the thread that waits for a silo also does the work for this silo."""
    return works


def in_threads(works: Mapping[str, Work]) -> Mapping[str, Wait]:
    """Start the work for each silo in a thread."""
    return {silo: _THREADS.submit(work).result for silo, work in works.items()}


MAX_SILO_TASKS = 32
"""maximum number of silos with separate `local_solve` tasks"""
MAX_TASKS = 500
"""number of task runs after which each round is a single task, because a task run takes 20 ms of CPU"""

TaskName = Literal[
    "local_solve", "aggregate", "dual_update", "check_convergence", "evaluate", "make_data", "write_data"
]


class TaskRun(Protocol):
    """A task run that has been started."""

    def wait(self, seconds: float) -> str | None:
        """Wait for at most `seconds` until the task run has ended.

        Returns why it failed, or an empty text if it did not fail; None if it has not ended.
        """
        ...


class Tasks(Protocol):
    """Starts work as task runs.

    A task calls its work again after an error that `may_pass`. The task run starts after the task runs `after`, failed
    ones included.
    """

    def submit(self, task: TaskName, name: str, work: Callable[[], None], after: Sequence[Any]) -> TaskRun:
        """Start `work` in a thread, as a run of `task` with this `name`."""
        ...

    def perform(self, task: TaskName, name: str, work: Callable[[], None], after: Sequence[Any]) -> TaskRun:
        """Do `work` in this thread, as a run of `task` with this `name`."""
        ...


def may_pass(error: BaseException) -> bool:
    """Whether a solve that failed with `error` may succeed if it is repeated.

    Bad input, a lost silo and an aborted secure sum do not pass. Repetitions are safe: a silo that has finished the
    round returns the same reply, without new noise or a second charge.
    """
    return isinstance(error, Exception) and not isinstance(error, BadInput | SiloLost | Aborted)


T = TypeVar("T")


WAIT_SECONDS = 1.0
"""seconds after which a wait for a task run notices that Prefect no longer responds"""


class _Step:
    """The work of one task by silo, or of the coordinator under an empty name, and what came of it.

    A repeated call does only the work that failed. Whoever calls first owns the work: the task run, or the run that has
    waited for it in vain.
    """

    def __init__(self, works: Mapping[str, Work]) -> None:
        self._works = works
        self._results: dict[str, Any] = {}
        self._errors: dict[str, BaseException] = {}
        self._lock = threading.Lock()
        self._owner: str | None = None

    def __call__(self) -> None:
        """Do the work in a task run; does nothing if the run has done it."""
        if self._own("task run"):
            self._do()

    def _own(self, who: str) -> bool:
        """Whether the work belongs to `who`, now or since an earlier call."""
        with self._lock:
            self._owner = self._owner or who
            return self._owner == who

    def _do(self) -> None:
        """Do the work, for several silos concurrently; raises an error that may pass or, without one, the first."""
        todo = {silo: work for silo, work in self._works.items() if silo not in self._results}
        self._errors = {}
        for silo, wait in (in_threads if len(todo) > 1 else run_on_wait)(todo).items():
            try:
                self._results[silo] = wait()
            except BaseException as error:
                self._errors[silo] = error
                if not isinstance(error, Exception):
                    raise
        if self._errors:
            raise next(filter(may_pass, self._errors.values()), next(iter(self._errors.values())))

    def result(self, silo: str, task_run: TaskRun, orchestration: "Orchestration") -> Any:
        """The result of the work for `silo` once `task_run` has ended, or its exception.

        If the task run ends without a start, Prefect is lost. Then, or if Prefect was lost before it started the task
        run, does the work now.
        """
        while (failure := task_run.wait(WAIT_SECONDS)) is None:
            if not orchestration.connected and self._own("run"):
                break
        if silo not in self._results and silo not in self._errors:
            if failure is not None and self._own("run"):
                orchestration.lost(failure)
            with suppress(Exception):  # that of this silo is raised below
                self._do()
        if silo in self._results:
            return self._results[silo]
        raise self._errors[silo]


class Cancellation:
    """A request to end a run early, with what has been learned.

    Silos are asked for no further solve, and a step of the coordinator in progress ends: both raise `RunCancelled`.
    """

    def __init__(self) -> None:
        self._requested = threading.Event()
        self._in_step = False

    def is_requested(self) -> bool:
        """Whether the run is to end."""
        return self._requested.is_set()

    def request(self) -> None:
        """Ask the run to end; any thread may call this."""
        self._requested.set()
        _thread.interrupt_main(SIGNAL)

    def perform(self, work: Callable[[], T]) -> T:
        """The result of `work`, a pure function, which a request ends at once in the main thread."""
        if self.is_requested():
            raise RunCancelled
        self._in_step = threading.current_thread() is threading.main_thread()
        try:
            return work()
        finally:
            self._in_step = False

    @contextmanager
    def listening(self, *signals: int) -> Iterator[None]:
        """Let a request end a step within the block; `signals` to this process are requests.

        Only the main thread receives signals; in other threads, a request ends the run after the current step.
        """
        if threading.current_thread() is not threading.main_thread():
            yield
            return

        def handle(number: int, frame: object) -> None:
            self._requested.set()
            if self._in_step:
                self._in_step = False
                raise RunCancelled

        before = {number: signal.signal(number, handle) for number in (SIGNAL, *signals)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


SIGNAL = getattr(signal, "SIGUSR1", signal.SIGTERM)
"""the signal by which another thread ends a step in progress; without a handler, `interrupt_main` does nothing"""


class Orchestration:
    """The steps of one run, as tasks while there are `tasks`.

    Prefect starts the steps and shows them, but cannot stop a run by its failure. If its server becomes unreachable,
    one notice is printed and the run continues without it.
    """

    def __init__(
        self,
        tasks: Tasks | None = None,
        give_up: Callable[[], None] = lambda: None,
        say: Callable[[str], None] = lambda line: None,
    ) -> None:
        """Start steps through `tasks`; call `give_up` once when Prefect no longer responds; log lines with `say`."""
        self.cancellation = Cancellation()
        self.connected = True
        self.say = say
        self._tasks = tasks
        self._give_up = give_up
        self._lock = threading.Lock()
        self._count = 0
        """the number of task runs so far"""
        self._is_long = False
        """whether each round is a single task from now on"""
        self._last: Sequence[TaskRun] = ()
        """the task run of the coordinator's last step, or the task runs of the solves since then"""

    def lost(self, why: str) -> None:
        """Continue without Prefect from now on; the first call prints a notice with `why` and calls `give_up`."""
        with self._lock:
            first, self.connected = self.connected, False
        if first:
            notice(f"Prefect no longer responds ({why}); the run continues without it")
            self._give_up()

    def report(self, send: Callable[[], object]) -> None:
        """If Prefect is connected, call `send`, which reports to Prefect; after an error, continue without Prefect."""
        if self.connected:
            try:
                send()
            except Exception as error:
                self.lost(first_line(error))

    def solves(self, label: str) -> Start:
        """A function that starts the solves of the round `label`, such as "round 4", each in a thread.

        Up to `MAX_SILO_TASKS` silos have separate `local_solve` tasks; more silos share a single task, and so do all
        silos once the run has had `MAX_TASKS` task runs.
        """
        return in_threads if self._tasks is None else partial(self._submit, self._tasks, label)

    def _submit(self, tasks: Tasks, label: str, works: Mapping[str, Work]) -> Mapping[str, Wait]:
        if self._count >= MAX_TASKS and not self._is_long:
            self._is_long = True
            self.say(f"from {label} on, each round is one task: the run has had {self._count} task runs")
        shared = len(works) > MAX_SILO_TASKS or self._is_long
        waits: dict[str, Wait] = {}
        started = []
        for group in [works] if shared else [{silo: work} for silo, work in works.items()]:
            step, who = _Step(group), f"{len(group)} silos" if shared else next(iter(group))
            run = tasks.submit("local_solve", f"local_solve {who} {label}", step, self._last)
            started.append(run)
            waits |= {silo: partial(step.result, silo, run, self) for silo in group}
        self._count += len(started)
        self._last = started
        return waits

    def perform(self, task: TaskName, label: str, work: Callable[[], T]) -> T:
        """Do `work`, a step of the coordinator, as "`task` `label`"; returns its result or raises its exception.

        The step uses the results of the solves since the last step or, if there are none, the result of the last step.
        """
        if self._tasks is None or self._is_long:
            return work()
        step = _Step({"": work})
        run = self._tasks.perform(task, f"{task} {label}".rstrip(), step, self._last)
        self._count += 1
        self._last = (run,)
        result: T = step.result("", run, self)
        return result

    def wrap(
        self, algorithm: FederatedAlgorithm[Any, Any, Any, Any], label: Callable[[], str]
    ) -> FederatedAlgorithm[Any, Any, Any, Any]:
        """`algorithm` with the coordinator's steps as tasks; `label` names the current round.

        `protocol.rounds` runs the wrapped algorithm like any other, so there is no separate loop for Prefect. The steps
        end if the run is cancelled.
        """

        def step(task: TaskName, function: Callable[..., T]) -> Callable[..., T]:
            def perform(*arguments: Any) -> T:
                return self.perform(task, label(), partial(self.cancellation.perform, partial(function, *arguments)))

            return perform

        return replace(
            algorithm,
            aggregate=step("aggregate", algorithm.aggregate),
            dual_update=step("dual_update", algorithm.dual_update),
            converged=step("check_convergence", algorithm.converged),
        )
