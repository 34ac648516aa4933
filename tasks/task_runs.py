"""Task runs: one record in Prefect for each step of a run, sent when the step ends.

Prefect's engine does not run the steps, because it would report every task run three times (before, during and after)
and use 22 ms of CPU. A single report takes a third of this time. A thread of Prefect sends the reports, so no step
waits for them. A step longer than `LONG_STEP_SECONDS` is also reported while the step runs.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import copy_context
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import count
from threading import Event, Lock, Thread
from uuid import UUID

from prefect.client.schemas.objects import State, TaskRun, TaskRunResult
from prefect.states import Completed, Failed, Running

from fedbnsl.tracking.staging import first_line

from .prefect_internals import report_task_run
from .rounds import Ids, Record

LONG_STEP_SECONDS = 1.0
"""duration after which an unfinished step is reported as running"""


@dataclass
class _RunningStep:
    """A step that is running."""

    task: str
    name: str
    number: int
    start_time: datetime
    sources: Ids
    running: State[None] = field(default_factory=Running)
    reported: bool = False


class TaskRuns:
    """The task runs of the current flow run, `flow_run_id`."""

    def __init__(self, flow_run_id: UUID) -> None:
        """Copy the context of the flow, in which all threads report, and watch for long steps."""
        self._flow_run_id = flow_run_id
        self._context = copy_context()
        self._numbers = count()
        self._open: dict[int, _RunningStep] = {}
        self._lock = Lock()
        self._closed = Event()
        Thread(target=self._watch, daemon=True, name="task runs").start()

    def close(self) -> None:
        """Stop watching for long steps."""
        self._closed.set()

    @contextmanager
    def record(self, task: str, name: str, sources: Ids = ()) -> Iterator[UUID]:
        """Record the block as a run of `task` with this `name`, which fails if the block raises; yields the run's id.

        `sources` are the ids of the task runs whose results this run uses: Prefect draws arrows from them to this run.
        """
        with self._lock:
            number = next(self._numbers)
            step = self._open[number] = _RunningStep(task, name, number, datetime.now(UTC), sources)
        try:
            yield step.running.id
        except BaseException as error:
            self._finish(step, Failed(message=first_line(error)))
            raise
        self._finish(step, Completed())

    def _finish(self, step: _RunningStep, state: State[None]) -> None:
        with self._lock:
            del self._open[step.number]
            self._report(step, step.running, state)

    def _watch(self) -> None:
        while not self._closed.wait(LONG_STEP_SECONDS / 2):
            now = datetime.now(UTC)
            with self._lock:
                for step in self._open.values():
                    if not step.reported and (now - step.start_time).total_seconds() >= LONG_STEP_SECONDS:
                        step.reported = True
                        self._report(step, None, step.running)

    def _report(self, step: _RunningStep, before: State[None] | None, state: State[None]) -> None:
        fields = {
            "id": step.running.id,
            "flow_run_id": self._flow_run_id,
            "name": step.name,
            "task_key": step.task,
            "dynamic_key": str(step.number),
            "task_inputs": {"results": [TaskRunResult(id=source) for source in step.sources]},
            "run_count": 1,
            "expected_start_time": step.start_time,
            "start_time": step.start_time,
        }
        if state.is_final():
            fields |= {"end_time": state.timestamp, "total_run_time": state.timestamp - step.start_time}
        run = TaskRun.model_validate(fields)
        self._context.copy().run(report_task_run, run, before, state)


@contextmanager
def record_task_runs(flow_run_id: UUID) -> Iterator[Record]:
    """Yield a function that records steps as task runs of the current flow run, `flow_run_id`."""
    runs = TaskRuns(flow_run_id)
    try:
        yield runs.record
    finally:
        runs.close()
