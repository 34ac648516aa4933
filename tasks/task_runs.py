"""What Prefect's pages show of the steps of a run: one task run each, recorded when the step has ended.

The steps themselves are run here and not by Prefect's engine, which reports every task run three times, before, while
and after it runs, at 22 ms of CPU in all. One report costs a third of that, is sent by a thread of Prefect's own, and
nobody waits for it. A step that lasts longer than `LONG` is also reported while it runs.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import copy_context
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import count
from threading import Event, Lock, Thread
from uuid import UUID

from prefect.client.schemas.objects import State, TaskRun
from prefect.states import Completed, Failed, Running

from fedbnsl.tracking.staging import first_line

from .prefect_internals import report_task_run
from .rounds import Record

LONG_STEP_SECONDS = 1.0
"""seconds after which a step that still runs is shown as running"""


@dataclass
class _Open:
    """A step that is running."""

    task: str
    name: str
    number: int
    began: datetime
    running: State[None] = field(default_factory=Running)
    shown: bool = False


class TaskRuns:
    """The task runs of the flow run `flow_run_id`, which is the one that this context belongs to."""

    def __init__(self, flow_run_id: UUID) -> None:
        """Start without any, in the context of the flow: whatever thread reports, it does so from there."""
        self._flow_run_id = flow_run_id
        self._context = copy_context()
        self._numbers = count()
        self._open: dict[int, _Open] = {}
        self._lock = Lock()
        self._closed = Event()
        Thread(target=self._watch, daemon=True, name="task runs").start()

    def close(self) -> None:
        """Look no more for steps that last long."""
        self._closed.set()

    @contextmanager
    def of(self, task: str, name: str) -> Iterator[None]:
        """Record the block as a run of `task`, called `name`: completed, or failed if it raises."""
        with self._lock:
            number = next(self._numbers)
            step = self._open[number] = _Open(task, name, number, datetime.now(UTC))
        try:
            yield
        except BaseException as error:
            self._ended(step, Failed(message=first_line(error)))
            raise
        self._ended(step, Completed())

    def _ended(self, step: _Open, state: State[None]) -> None:
        with self._lock:
            del self._open[step.number]
            self._report(step, step.running, state)

    def _watch(self) -> None:
        while not self._closed.wait(LONG_STEP_SECONDS / 2):
            now = datetime.now(UTC)
            with self._lock:
                for step in self._open.values():
                    if not step.shown and (now - step.began).total_seconds() >= LONG_STEP_SECONDS:
                        step.shown = True
                        self._report(step, None, step.running)

    def _report(self, step: _Open, before: State[None] | None, state: State[None]) -> None:
        told = {
            "id": step.running.id,
            "flow_run_id": self._flow_run_id,
            "name": step.name,
            "task_key": step.task,
            "dynamic_key": str(step.number),
            "run_count": 1,
            "expected_start_time": step.began,
            "start_time": step.began,
        }
        if state.is_final():
            told |= {"end_time": state.timestamp, "total_run_time": state.timestamp - step.began}
        run = TaskRun.model_validate(told)
        self._context.copy().run(report_task_run, run, before, state)


@contextmanager
def record_task_runs(flow_run_id: UUID) -> Iterator[Record]:
    """Yield what records steps as task runs of this flow run, the one that the context belongs to."""
    runs = TaskRuns(flow_run_id)
    try:
        yield runs.of
    finally:
        runs.close()
