"""The flow `learn`: rounds of Prefect tasks over silos on Dask workers, tracked in MLflow."""

from pathlib import Path
from typing import Any

from prefect import flow
from prefect.runtime import flow_run
from prefect.task_runners import ThreadPoolTaskRunner
from threadpoolctl import threadpool_limits

from fedbnsl.flows.engines.alone import alone
from fedbnsl.flows.engines.artifacts import ProgressArtifact, publish, tag_flow_run
from fedbnsl.flows.engines.dask import Silos, job_of, silos_of
from fedbnsl.flows.engines.listening import listeners
from fedbnsl.flows.engines.outcome import kept
from fedbnsl.flows.engines.pins import check_pins
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
from fedbnsl.tasks.rounds import Orchestration
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
    task_runner=ThreadPoolTaskRunner(max_workers=256),  # type: ignore[arg-type]
    persist_result=False,
)
def learn(settings: LearnSettings) -> Finished:
    """Learn the structure of a Bayesian network from data that several owners hold and may not pool.

    Args:
        settings: data set, algorithm with its parameters, seed, and where the results go.
    """
    return kept(lambda: learned(settings.named()))


def learned(settings: LearnSettings) -> Finished:
    """Reach the silos that `settings` name, learn from them, and tell Prefect what came out."""
    orchestration = Orchestration(abandon_services)
    log = FlowRunLog(orchestration, str(flow_run.id))
    try:
        finished = _learned(settings, orchestration, log)
    except Exception as error:
        log.fail(error)
        raise
    log.finish(finished)
    orchestration.tell(lambda: publish(finished))
    return finished


def _learned(settings: LearnSettings, orchestration: Orchestration, log: FlowRunLog) -> Finished:
    resumed = standing_of(Path(str(settings.out))) if settings.resume else None
    with silos_of(settings, orchestration, resumed) as silos, threadpool_limits(1):
        tags = [settings.algorithm, Path(settings.data).name, f"seed-{settings.seed}"]
        orchestration.tell(lambda: tag_flow_run(str(flow_run.id), tags))
        finished = learn_from(silos, settings, str(flow_run.id), orchestration, log)
        if finished.result.outcome != "silo lost":
            silos.finish()
            forget(finished.folder)
    return finished


def learn_from(
    silos: Silos, settings: LearnSettings, flow_run_id: str, orchestration: Orchestration, log: FlowRunLog
) -> Finished:
    """Run the rounds over `silos`, from the start or from the last checkpoint, and write what comes out."""
    folder = Path(str(settings.out))
    started = read_started(folder) if settings.resume else None
    resumed = resumed_from(folder) if settings.resume else None
    job = job_of(settings, started.run_id if started else flow_run_id, silos)
    check(job, silos.session.schema)
    pins = silos.begin(job)
    if started is not None:
        check_pins(started.pins, pins)
    again = (started, resumed) if started else None
    tags = {"prefect_flow_run": flow_run_id}
    with alone(folder), tracked(job, silos.session.schema, tags, folder, again) as tracker:
        opening = tracker.opening
        begun = started.settings if started else settings
        write_started(folder, Started(begun, job.run_id, opening.uri, opening.run_id, pins))
        keep = checkpointing(folder, opening.run_id, resumed.seconds if resumed else 0.0)
        hear: tuple[Listener, ...] = (
            keep,
            logging_rounds(tracker),
            log,
            ProgressArtifact(orchestration),
            *listeners(),
        )
        result = run(job, silos.session, hear, resumed)
        files = write_outputs(result, folder)
        tracker.finish(result)
        return Finished(result, folder, files, tracker.url)
