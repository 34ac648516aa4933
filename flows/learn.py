"""The flow `learn`: rounds of Prefect tasks over silos on Dask workers, tracked in MLflow."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import wraps
from pathlib import Path
from typing import Any
from uuid import uuid4

from prefect import Flow, flow
from prefect.runtime import flow_run
from prefect.states import Cancelled
from prefect.task_runners import ThreadPoolTaskRunner
from threadpoolctl import threadpool_limits

from fedbnsl.algorithms.core.protocol import BROKEN_OFF, SiloLost
from fedbnsl.algorithms.errors import BadInput, RunCancelled, SilosUnavailable, pluralize
from fedbnsl.tasks.prefect_tasks import prefect_steps, task_logs
from fedbnsl.tasks.rounds import MAX_SILO_TASKS, Orchestration
from fedbnsl.tracking.mlflow.run import RunStart
from fedbnsl.tracking.outputs import write_outputs
from fedbnsl.tracking.result import CompletedRun
from fedbnsl.tracking.staging import expiring, notice

from .engines.artifacts import ProgressArtifact, publish, publish_changes, tag_flow_run
from .engines.dask import Silos, connect_silos, job_of, quorum_note
from .engines.flow_run_log import FlowRunLog
from .engines.mlflow_run import mlflow_listener, mlflow_run
from .engines.recurring import run_recurring
from .engines.resuming import (
    Started,
    check_pins,
    checkpoint_listener,
    interrupted_silos,
    is_resumable,
    read_started,
    remove_checkpoint,
    resumed_from,
    run_lock,
    to_continue,
    write_started,
)
from .engines.retention import RunRecord, write_record
from .engines.run_comparison import Unchanged, compare_with_last_run
from .engines.run_context import RunContext
from .job.check import check
from .job.run import Listener, run
from .job.signing import BROKEN_OFF as UNFINISHED
from .job.signing import write_signed, write_unsigned
from .options.learn import LearnSettings
from .options.repeat import RepeatSettings


def flow_run_name() -> str:
    """The name of the flow run: algorithm, data set, seed and time."""
    given: Any = flow_run.parameters["settings"]
    settings = given if isinstance(given, LearnSettings) else LearnSettings(**given)
    return str(settings.named().name)


RUNNER: Any = ThreadPoolTaskRunner(max_workers=MAX_SILO_TASKS)
"""runs the solves of the silos, each in a thread"""


@flow(
    name="learn",
    flow_run_name=flow_run_name,
    persist_result=False,
    task_runner=RUNNER,
)
def learn(settings: LearnSettings, repeat: RepeatSettings | None = None) -> Any:
    """Learn the structure of a Bayesian network from data that several owners hold and may not pool.

    Args:
        settings: data set, algorithm with its parameters, seed, and where the results go.
        repeat: for scheduled runs: skip unchanged data, compare with the last run, notify hooks of drift and failure.
    """
    if repeat is None:
        return _end(lambda: run_flow(settings.named()))
    return _end(lambda: run_recurring(settings, repeat, lambda named, repeat: run_flow(named, repeat=repeat)))


def _end(work: Callable[[], Any]) -> Any:
    """The result of `work`: a finished run or a state of Prefect; for a cancelled run, the state that says so."""
    try:
        finished = work()
    except RunCancelled as cancelled:
        return Cancelled(message=str(cancelled))
    if not isinstance(finished, CompletedRun) or finished.result.outcome != "cancelled":
        return finished
    rounds = len(finished.result.rounds)
    return Cancelled(message=f"after {pluralize(rounds, 'round')}; what was learned is in {finished.folder.absolute()}")


def learn_flow(context: RunContext) -> Flow[..., Any]:
    """The flow `learn` for one run in this process, with `context` in addition to the settings."""

    @wraps(learn.fn)
    def learn_in_context(settings: LearnSettings, repeat: RepeatSettings | None = None) -> Any:
        return _end(lambda: context.outcome.record(lambda: run_flow(settings.named(), context, repeat)))

    return Flow(
        learn_in_context, name=learn.name, flow_run_name=flow_run_name, persist_result=False, task_runner=RUNNER
    )


def run_flow(
    settings: LearnSettings, context: RunContext | None = None, repeat: RepeatSettings | None = None
) -> CompletedRun:
    """Learn with `settings`, from the start or from the last checkpoint, and show the run in Prefect.

    Raises `Unchanged` if the run is skipped, because nothing or too little has changed since an earlier run.
    """
    with prefect_steps() as orchestration, threadpool_limits(1):
        log = FlowRunLog(orchestration, str(flow_run.id))
        try:
            with task_logs(log.task_line):
                finished = learn_from_silos(settings, context or RunContext(), orchestration, log, repeat)
        except Unchanged as same:
            log.log(f"skipped: {same}", now=True)
            raise
        except Exception as error:
            log.fail(error)
            raise
        for line in expiring(finished.result.notes):
            log.log(line)
        log.finish(finished)
        orchestration.report(lambda: publish(finished))
        if changes := finished.result.changes:
            orchestration.report(lambda: publish_changes(changes))
        return finished


def learn_without_prefect(settings: LearnSettings, context: RunContext) -> CompletedRun:
    """Learn as `run_flow` does, without Prefect."""
    orchestration = Orchestration()
    orchestration.connected = False
    with threadpool_limits(1):
        log = FlowRunLog(orchestration, str(uuid4()))
        return learn_from_silos(settings, context, orchestration, log, None)


def learn_from_silos(
    settings: LearnSettings,
    context: RunContext,
    orchestration: Orchestration,
    log: FlowRunLog,
    repeat: RepeatSettings | None,
) -> CompletedRun:
    """Connect to the silos of `settings` and learn from their rows.

    The checkpoint is removed, unless the run was broken off; such a run can be resumed.
    """
    folder = Path(str(settings.out))
    resumed = interrupted_silos(folder) if settings.resume else None
    changed_rows = repeat.changed_rows if repeat else 0
    with (
        _unfinished_run_continues(folder),
        connect_silos(settings, orchestration, resumed, context.workers, changed_rows) as silos,
    ):
        tags = [settings.algorithm, settings.dataset, f"seed-{settings.seed}"]
        orchestration.report(lambda: tag_flow_run(log.flow_run_id, tags))
        listeners: tuple[Listener, ...] = (log, ProgressArtifact(orchestration), *context.listeners)
        finished = run_rounds(silos, settings, log.flow_run_id, listeners, repeat, orchestration)
        if finished.result.outcome in BROKEN_OFF:
            files = write_unsigned(folder, finished.files, UNFINISHED)
        else:
            files = _signed(settings, silos, finished)
            silos.finish()
            started = read_started(finished.folder)
            deployment = repeat.deployment if repeat else ""
            places = RunRecord(deployment, log.flow_run_id, started.tracking_uri, started.tracking_id)
            write_record(finished.folder, places)
            remove_checkpoint(finished.folder)
    return replace(finished, files=files)


def _signed(settings: LearnSettings, silos: Silos, finished: CompletedRun) -> dict[str, Path]:
    """The files of the `finished` run with the records that the silos of other owners have signed."""
    folder, files = finished.folder, finished.files
    if settings.federation is None:
        return write_unsigned(folder, files)
    run_id = read_started(folder).run_id
    return write_signed(folder, run_id, files, lambda hashes: silos.sign(run_id, hashes))


@contextmanager
def _unfinished_run_continues(folder: Path) -> Iterator[None]:
    """Errors of the block that may pass say how to continue the run in `folder`, if it has begun.

    Raises `SilosUnavailable` if silos are lost outside of the rounds, which handle it themselves.
    """
    try:
        yield
    except (BadInput, SiloLost) as raised:
        error = SilosUnavailable(str(raised)) if isinstance(raised, SiloLost) else raised
        if error.may_pass and is_resumable(folder):
            error.args = (f"{error}; {to_continue(folder)}",)
        raise error from None


CANCELLED = "The run was cancelled: steps that are missing here were not done."


def run_rounds(
    silos: Silos,
    settings: LearnSettings,
    flow_run_id: str,
    listeners: tuple[Listener, ...],
    repeat: RepeatSettings | None,
    orchestration: Orchestration,
) -> CompletedRun:
    """Run the rounds over `silos`, from the start or from the last checkpoint, and write the results."""
    folder = Path(str(settings.out))
    started = read_started(folder) if settings.resume else None
    resumed = resumed_from(folder) if settings.resume else None
    job = job_of(settings, started.run_id if started else flow_run_id, silos)
    check(job, silos.session.schema)
    if note := quorum_note(job, silos.session.schema):
        notice(note)
    comparison = compare_with_last_run(settings, repeat, lambda context: silos.seals(job, context)) if repeat else None
    pins = silos.begin(job)
    if started is not None:
        check_pins(started.pins, pins)
    interrupted = (started, resumed) if started else None
    tags = {"prefect_flow_run": flow_run_id}

    def opened(opening: RunStart) -> None:
        original = started.settings if started else settings
        write_started(folder, Started(original, job.run_id, opening.uri, opening.run_id, pins))

    with run_lock(folder), mlflow_run(job, silos.session.schema, tags, folder, interrupted, opened) as tracker:
        checkpointer = checkpoint_listener(folder, resumed.seconds if resumed else 0.0)
        result = run(job, silos.session, (checkpointer, mlflow_listener(tracker), *listeners), resumed)
        if orchestration.cancellation.is_requested():
            metrics = result.metrics | {"outcome": "cancelled"}
            result = replace(result, outcome="cancelled", metrics=metrics, notes=(*result.notes, CANCELLED))
        result = comparison.add_changes(result) if comparison else result
        files = write_outputs(result, folder)
        tracker.finish(result)
        if comparison:
            comparison.save(result)
        return CompletedRun(result, folder, files, tracker.url)
