"""The flow `learn`: rounds of Prefect tasks over silos on Dask workers, tracked in MLflow."""

from pathlib import Path
from typing import Any
from uuid import UUID

from prefect import flow
from prefect.runtime import flow_run
from threadpoolctl import threadpool_limits

from fedbnsl.flows.engines.alone import alone
from fedbnsl.flows.engines.artifacts import ProgressArtifact, publish, tag_flow_run
from fedbnsl.flows.engines.dask import Silos, job_of, silos_of
from fedbnsl.flows.engines.following import Unchanged, following
from fedbnsl.flows.engines.listening import listeners
from fedbnsl.flows.engines.outcome import kept
from fedbnsl.flows.engines.pins import check_pins
from fedbnsl.flows.engines.repeating import publish_changes, repeated
from fedbnsl.flows.engines.resuming import (
    Started,
    checkpointing,
    forget,
    read_started,
    resumed_from,
    standing_of,
    write_started,
)
from fedbnsl.flows.engines.run_log import FlowRunLog
from fedbnsl.flows.engines.tracked import logging_rounds, tracked
from fedbnsl.flows.job.finished import Finished
from fedbnsl.flows.options.learn import LearnSettings
from fedbnsl.flows.options.repeat import RepeatSettings
from fedbnsl.tasks.rounds import Orchestration
from fedbnsl.tasks.task_runs import recorded
from fedbnsl.tracking.mlflow.telling import Opening
from fedbnsl.tracking.outputs import write_outputs

from .job.check import check
from .job.run import Listener, run
from .servers.farewell import abandon_services


def flow_run_name() -> str:
    """Return the name of the flow run: algorithm, data set, seed and time."""
    given: Any = flow_run.parameters["settings"]
    settings = given if isinstance(given, LearnSettings) else LearnSettings(**given)
    return str(settings.named().name)


@flow(
    name="learn",
    flow_run_name=flow_run_name,
    persist_result=False,
)
def learn(settings: LearnSettings, repeat: RepeatSettings | None = None) -> Any:
    """Learn the structure of a Bayesian network from data that several owners hold and may not pool.

    Args:
        settings: data set, algorithm with its parameters, seed, and where the results go.
        repeat: for runs that follow each other: skip unchanged data, compare with the run before, tell hooks of drift.
    """
    if repeat is not None:
        return repeated(settings.named(), repeat, learned)
    return kept(lambda: learned(settings.named()))


def learned(settings: LearnSettings, repeat: RepeatSettings | None = None) -> Finished:
    """Learn as `settings` say, from the start or from where an interrupted run stopped, and tell Prefect of it.

    Raises `Unchanged` if the run is to `repeat` another on the same rows, and that is to be skipped.
    """
    with recorded(UUID(str(flow_run.id))) as record, threadpool_limits(1):
        orchestration = Orchestration(record, abandon_services)
        log = FlowRunLog(orchestration, str(flow_run.id))
        try:
            finished = learned_from_silos(settings, orchestration, log, repeat)
        except Unchanged as same:
            log.say(f"skipped: {same}", now=True)
            raise
        except Exception as error:
            log.fail(error)
            raise
        log.finish(finished)
        orchestration.tell(lambda: publish(finished))
        if changes := finished.result.changes:
            orchestration.tell(lambda: publish_changes(changes))
        return finished


def learned_from_silos(
    settings: LearnSettings, orchestration: Orchestration, log: FlowRunLog, repeat: RepeatSettings | None
) -> Finished:
    """Reach the silos that `settings` name and learn from them; what only an interrupted run needs goes in the end."""
    resumed = standing_of(Path(str(settings.out))) if settings.resume else None
    with silos_of(settings, orchestration, resumed) as silos:
        tags = [settings.algorithm, Path(settings.data).name, f"seed-{settings.seed}"]
        orchestration.tell(lambda: tag_flow_run(str(flow_run.id), tags))
        hear: tuple[Listener, ...] = (log, ProgressArtifact(orchestration), *listeners())
        finished = learn_from(silos, settings, str(flow_run.id), hear, repeat)
        if finished.result.outcome != "silo lost":
            silos.finish()
            forget(finished.folder)
    return finished


def learn_from(
    silos: Silos,
    settings: LearnSettings,
    flow_run_id: str,
    listening: tuple[Listener, ...],
    repeat: RepeatSettings | None = None,
) -> Finished:
    """Run the rounds over `silos`, from the start or from the last checkpoint, and write what comes out."""
    folder = Path(str(settings.out))
    started = read_started(folder) if settings.resume else None
    resumed = resumed_from(folder) if settings.resume else None
    job = job_of(settings, started.run_id if started else flow_run_id, silos)
    check(job, silos.session.schema)
    follows = following(settings, repeat, lambda context: silos.seals(job, context)) if repeat else None
    pins = silos.begin(job)
    if started is not None:
        check_pins(started.pins, pins)
    again = (started, resumed) if started else None
    tags = {"prefect_flow_run": flow_run_id}

    def opened(opening: Opening) -> None:
        begun = started.settings if started else settings
        write_started(folder, Started(begun, job.run_id, opening.uri, opening.run_id, pins))

    with alone(folder), tracked(job, silos.session.schema, tags, folder, again, opened) as tracker:
        keep = checkpointing(folder, resumed.seconds if resumed else 0.0)
        hear: tuple[Listener, ...] = (keep, logging_rounds(tracker), *listening)
        result = run(job, silos.session, hear, resumed)
        result = follows.compared(result) if follows else result
        files = write_outputs(result, folder)
        tracker.finish(result)
        if follows:
            follows.keep(result)
        return Finished(result, folder, files, tracker.url)
