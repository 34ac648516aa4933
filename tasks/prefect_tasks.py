"""The steps of a run as tasks of Prefect.

Prefect's engine runs each step: it repeats solves after errors that may pass, shows the state and the log of every
task run while it lasts, and obeys limits of concurrency for its tag, which is the name of the task. The parameters and
results of a task run stay in this process.

A task has no `timeout_seconds`, because Prefect cannot end a step in a thread. A silo that does not answer in time
raises a `TimeoutError` instead (`transport/federation.py`), and Prefect shows its solve as timed out.
"""

import logging
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent import futures
from contextlib import contextmanager
from contextvars import copy_context
from dataclasses import dataclass
from threading import Event, Thread
from typing import Any, cast
from uuid import UUID

from prefect import Task, allow_failure, task
from prefect.cache_policies import NO_CACHE
from prefect.client.orchestration import get_client
from prefect.client.schemas.objects import State, TaskRun
from prefect.futures import PrefectConcurrentFuture
from prefect.runtime import deployment, flow_run

from fedbnsl.tracking.staging import first_line

from .prefect_internals import COMPLETED_LINE, TASK_LOGGER, abandon_services
from .rounds import Cancellation, Orchestration, TaskName, may_pass

RETRIES = 2
"""number of repetitions of a solve"""
RETRY_PAUSE_SECONDS = 1.0
"""pause before a repetition"""

Work = Callable[[], None]


def is_repeated(task: Task[Any, Any], run: TaskRun, state: State[Any]) -> bool:
    """Whether a solve that ended in `state` is repeated."""
    return isinstance(state.data, BaseException) and may_pass(state.data)


COORDINATOR: dict[str, Any] = {"task_run_name": "{name}", "cache_policy": NO_CACHE, "persist_result": False}
"""options of all tasks"""


@task(
    name="local_solve",
    retries=RETRIES,
    retry_delay_seconds=RETRY_PAUSE_SECONDS,
    retry_condition_fn=is_repeated,
    **COORDINATOR,
)
def local_solve(name: str, work: Work) -> None:
    """The solve of a silo, on the worker or machine that holds its rows."""
    work()


@task(name="aggregate", **COORDINATOR)
def aggregate(name: str, work: Work) -> None:
    """The coordinator aggregates the replies, or their sum."""
    work()


@task(name="dual_update", **COORDINATOR)
def dual_update(name: str, work: Work) -> None:
    """The coordinator updates the dual variables."""
    work()


@task(name="check_convergence", **COORDINATOR)
def check_convergence(name: str, work: Work) -> None:
    """The coordinator checks whether the run has converged."""
    work()


@task(name="evaluate", **COORDINATOR)
def evaluate(name: str, work: Work) -> None:
    """The coordinator compares the graph with the true graph."""
    work()


@task(name="make_data", **COORDINATOR)
def make_data(name: str, work: Work) -> None:
    """Draw a federated data set."""
    work()


@task(name="write_data", **COORDINATOR)
def write_data(name: str, work: Work) -> None:
    """Write a federated data set as a folder."""
    work()


UNTAGGED: Mapping[TaskName, Task[..., None]] = {
    "local_solve": local_solve,
    "aggregate": aggregate,
    "dual_update": dual_update,
    "check_convergence": check_convergence,
    "evaluate": evaluate,
    "make_data": make_data,
    "write_data": write_data,
}
TAGGED = {name: one.with_options(tags={name}) for name, one in UNTAGGED.items()}
"""the tasks with their names as tags, by which Prefect limits how many run at a time"""


@dataclass(frozen=True)
class StartedTask:
    """A task run that Prefect has started (see `rounds.TaskRun`)."""

    ended: PrefectConcurrentFuture[Any] | State[Any] | Exception
    """the task run in a thread, or the final state of one in this thread, or the error of Prefect's engine"""

    def wait(self, seconds: float) -> str | None:
        """Why the task run failed, or "" if it did not; None if it has not ended within `seconds`."""
        if isinstance(self.ended, Exception):
            return first_line(self.ended)
        try:
            if isinstance(self.ended, State):
                state = self.ended
            elif futures.wait([self.ended.wrapped_future], seconds).not_done:
                return None
            else:
                # The future's own `state` asks the server, on which a run must not depend.
                state = self.ended.wrapped_future.result()
        except Exception as error:
            return first_line(error)
        return "" if state.is_completed() else state.message or f"a task run ended as {state.name}"


class PrefectTasks:
    """Starts the steps of the current flow run as tasks of Prefect (see `rounds.Tasks`)."""

    def __init__(self) -> None:
        self._connected = True

    def disconnect(self) -> None:
        """Start tasks without tags from now on, because Prefect would ask its server for the limits of the tags."""
        self._connected = False

    def submit(self, task: TaskName, name: str, work: Work, after: Sequence[StartedTask]) -> StartedTask:
        """Start `work` in a thread of the flow's task runner."""
        future = self._task(task).submit(name, work, wait_for=_sources(after))
        return StartedTask(cast(PrefectConcurrentFuture[Any], future))

    def perform(self, task: TaskName, name: str, work: Work, after: Sequence[StartedTask]) -> StartedTask:
        """Do `work` in this thread."""
        try:
            return StartedTask(self._task(task)(name, work, wait_for=_sources(after), return_state=True))
        except Exception as error:
            return StartedTask(error)

    def _task(self, name: TaskName) -> Task[..., Any]:
        return (TAGGED if self._connected else UNTAGGED)[name]


def _sources(after: Sequence[StartedTask]) -> list[Any]:
    return [allow_failure(one.ended) for one in after if not isinstance(one.ended, Exception)]


@contextmanager
def prefect_steps() -> Iterator[Orchestration]:
    """Yield the orchestration of the current flow run, which ends early when somebody cancels it in Prefect.

    Prefect stops a run of a deployment with SIGTERM, and only marks any other run.
    """
    tasks = PrefectTasks()

    def give_up() -> None:
        tasks.disconnect()
        abandon_services()

    orchestration = Orchestration(tasks, give_up)
    with (
        orchestration.cancellation.listening(*[signal.SIGTERM] * bool(deployment.id)),
        _watching(UUID(str(flow_run.id)), orchestration.cancellation),
    ):
        yield orchestration


WATCH_SECONDS = 2.0
"""seconds between two requests for the state of the flow run"""


@contextmanager
def _watching(flow_run_id: UUID, cancellation: Cancellation) -> Iterator[None]:
    """Request the cancellation once the flow run is being cancelled; a server that does not answer is asked again."""
    ended = Event()

    def watch() -> None:
        while not ended.wait(WATCH_SECONDS):
            try:
                with get_client(sync_client=True) as client:
                    state = client.read_flow_run(flow_run_id).state
            except Exception:
                continue
            if state is not None and (state.is_cancelling() or state.is_cancelled()):
                cancellation.request()
                return

    Thread(target=copy_context().run, args=(watch,), daemon=True, name="cancellation").start()
    try:
        yield
    finally:
        ended.set()


class _Forwarding(logging.Handler):
    """Passes the lines that Prefect logs about task runs on to `log`, except that a task run has completed.

    Prefect shows the lines of all task runs on the page of the flow run, where these would hide the rounds.
    """

    def __init__(self, log: Callable[[str, int, UUID], None]) -> None:
        super().__init__(logging.INFO)
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        """Pass on the text and level of a line, with the id of its task run; tracebacks are left out."""
        run, line = getattr(record, "task_run_id", None), record.getMessage()
        if run is not None and line != COMPLETED_LINE:
            self._log(line, record.levelno, UUID(str(run)))


@contextmanager
def task_logs(log: Callable[[str, int, UUID], None]) -> Iterator[None]:
    """Call `log` with the text, the level and the task run's id of each line that Prefect logs about a task run.

    Without this, the lines would be lost: the command line silences Prefect's loggers, whose handler prints errors on
    the terminal when the server ends.
    """
    logger, forwarding = logging.getLogger(TASK_LOGGER), _Forwarding(log)
    handlers, level, propagate = logger.handlers, logger.level, logger.propagate
    logger.handlers, logger.propagate = [forwarding], False
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.handlers, logger.propagate = handlers, propagate
        logger.setLevel(level)
