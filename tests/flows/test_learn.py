import json
import time
from collections import Counter
from uuid import UUID

import numpy as np
import pytest

from fedbnsl.algorithms.errors import BadInput
from fedbnsl.algorithms.registry import ALGORITHMS
from fedbnsl.data.folder.folder import read_folder
from fedbnsl.flows.engines.inline import job_inline, run_inline
from fedbnsl.flows.engines.resuming import resume_settings
from fedbnsl.flows.engines.run_context import RunContext
from fedbnsl.flows.learn import learn, learn_flow
from fedbnsl.flows.options.learn import LearnSettings
from fedbnsl.flows.start import learn_inline

ROUNDS = 5
SETTINGS = {"algorithm": "notears-admm", "params": {"rounds": ROUNDS}, "seed": 3}


def inline(folder, **settings):
    settings = LearnSettings(data=str(folder), **{**SETTINGS, **settings})
    data = read_folder(folder)
    return run_inline(job_inline(settings, "inline", data), data)


def same(one, other):
    """Whether two results agree bit for bit, except for their times and engines."""
    timeless = [{key: value for key, value in result.metrics.items() if key != "seconds"} for result in (one, other)]
    return (
        one.structure.weights.tobytes() == other.structure.weights.tobytes()
        and np.array_equal(one.structure.scores, other.structure.scores)
        and one.rounds == other.rounds
        and timeless[0] == timeless[1]
        and one.outcome == other.outcome
    )


@pytest.fixture(scope="module")
def followed(server, example, mlflow_uri, tmp_path_factory):
    """One run through Prefect and Dask, and the events that a listener received."""
    heard = []
    out = tmp_path_factory.mktemp("out") / "run"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MLFLOW_TRACKING_URI", mlflow_uri)
        finished = learn_flow(RunContext((heard.append,)))(
            LearnSettings(data=str(example), name="followed", out=str(out), **SETTINGS)
        )
    return finished, heard


def test_prefect_and_dask_give_what_inline_gives_bit_for_bit(followed, example):
    finished, _ = followed
    assert same(finished.result, inline(example))


def test_a_listener_hears_every_round(followed):
    _, heard = followed
    assert [progress.round.number for progress in heard] == [1, 2, 3, 4, 5]
    assert heard[-1].round.outcome == "out of rounds"


def test_the_outputs_are_written(followed):
    finished, _ = followed
    written = {path.name for path in finished.folder.iterdir()}
    assert {"structure.csv", "metrics.json", "rounds.csv", "structure.png", "report.html", "config.json"} <= written
    assert json.loads((finished.folder / "metrics.json").read_text())["rounds"] == ROUNDS


def test_the_journals_are_empty_afterwards(followed, example):
    from fedbnsl.tasks.silo.journal import Journal

    for silo in ("silo-1", "silo-2", "silo-3"):
        with Journal(example / ".fedbnsl" / f"{silo}.sqlite") as journal:
            assert journal._db.execute("SELECT COUNT(*) FROM answers").fetchone() == (0,)
            assert journal._db.execute("SELECT COUNT(*) FROM standings").fetchone() == (0,)


def flow_run_of(client, name):
    from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterName

    return client.read_flow_runs(flow_run_filter=FlowRunFilter(name=FlowRunFilterName(any_=[name])))[0]


def test_prefect_knows_the_run_its_tasks_and_its_artifacts(followed):
    from prefect.client.orchestration import get_client
    from prefect.client.schemas.filters import ArtifactFilter, ArtifactFilterFlowRunId, FlowRunFilter, FlowRunFilterId

    with get_client(sync_client=True) as client:
        run = flow_run_of(client, "followed")
        assert {"notears-admm", "example", "seed-3"} <= set(run.tags)
        assert run.state.is_completed()
        exchanges = ROUNDS + 3  # the refit is one more, the diagnoses, which the parameters follow from, two
        only = FlowRunFilter(id=FlowRunFilterId(any_=[UUID(str(run.id))]))
        tasks = all_task_runs(client, only, expected=exchanges * (3 + 3) + 1)
        names = Counter(task.name.split()[0] for task in tasks)
        artifacts = client.read_artifacts(
            artifact_filter=ArtifactFilter(flow_run_id=ArtifactFilterFlowRunId(any_=[run.id]))
        )
    each = dict.fromkeys(("aggregate", "dual_update", "check_convergence"), exchanges)
    assert names == {"local_solve": 3 * exchanges, "evaluate": 1, **each}
    called = {task.id: task.name for task in tasks}
    assert len(set(called.values())) == len(tasks), "a name stands for one step"
    assert {"local_solve silo-2 round 4", "local_solve silo-2 diagnosis 2", "aggregate refit 1"} <= set(called.values())
    used = {task.name: {called[one.id] for one in task.task_inputs.get("wait_for", ())} for task in tasks}
    assert used["aggregate round 4"] == {f"local_solve silo-{k} round 4" for k in (1, 2, 3)}
    assert used["local_solve silo-2 round 5"] == {"check_convergence round 4"}
    assert {"rounds", "scores", "structure", "picture", "silos"} <= {artifact.key for artifact in artifacts}
    picture = next(artifact for artifact in artifacts if artifact.key == "picture")
    assert picture.data.startswith("data:image/png;base64,")


def test_the_log_of_the_run_tells_of_every_round_and_of_what_came_out(followed):
    from prefect.client.orchestration import get_client
    from prefect.client.schemas.filters import LogFilter, LogFilterFlowRunId
    from prefect.client.schemas.sorting import LogSort

    finished, _ = followed
    with get_client(sync_client=True) as client:
        only = LogFilter(flow_run_id=LogFilterFlowRunId(any_=[flow_run_of(client, "followed").id]))
        logged = client.read_logs(log_filter=only, sort=LogSort.TIMESTAMP_ASC, limit=200)
    said = [log.message for log in logged if log.task_run_id is None]
    limit = f"of at most {ROUNDS}"
    assert [line.split(":")[0] for line in said[:ROUNDS]] == [f"round {k} {limit}" for k in range(1, ROUNDS + 1)]
    after = "\n".join(said[ROUNDS:])
    assert "shd " in after
    assert f"report: {(finished.folder / 'report.html').absolute()}" in after
    assert f"MLflow: {finished.tracking_url}" in after
    assert len(said) == len(logged)  # no line for each task that has completed


def all_task_runs(client, flow_run_filter, expected):
    """The task runs; they reach the server a moment after the flow has ended."""
    import time

    deadline = time.monotonic() + 30
    while True:
        found = client.read_task_runs(flow_run_filter=flow_run_filter, limit=200)
        if (len(found) >= expected and all(task.state.is_completed() for task in found)) or time.monotonic() > deadline:
            return found
        time.sleep(0.5)


def test_bad_rows_are_bad_input_and_nothing_is_written(server, example, tmp_path):
    folder = tmp_path / "bad"
    folder.mkdir()
    for path in example.glob("silo-*.csv"):
        (folder / path.name).write_text(path.read_text().replace("\n", "\nfive,1,1,1,1\n", 1))
    with pytest.raises(BadInput, match="'five' is not a number"):
        learn(LearnSettings(data=str(folder), out=str(tmp_path / "out"), **SETTINGS))
    assert not (tmp_path / "out").exists()


def test_the_run_is_in_mlflow(followed):
    from fedbnsl.tracking.mlflow.store import open_client, tracking_uri

    finished, _ = followed
    run = open_client(tracking_uri()).get_run(finished.tracking_url.partition("?")[0].rpartition("/")[2])
    assert run.info.status == "FINISHED"
    assert run.info.run_name == "followed"
    assert run.data.params["seed"] == "3"
    assert run.data.metrics["shd"] == finished.result.metrics["shd"]
    assert run.data.tags["algorithm"] == "notears-admm"


def test_nothing_is_left_for_a_resume_that_is_not_needed(followed):
    finished, _ = followed
    assert not (finished.folder / "checkpoint.bin").exists()
    with pytest.raises(BadInput, match="this run is finished"):
        resume_settings(finished.folder)


@pytest.mark.slow
def test_a_pooled_baseline_runs_on_one_silo_that_holds_all_rows(server, example, tmp_path):
    pooled = [name for name, entry in ALGORITHMS.items() if entry.pooled and "continuous" in entry.kinds]
    if not pooled:
        pytest.skip("no pooled baseline yet")
    settings = {"algorithm": pooled[0], "params": {}}
    finished = learn(LearnSettings(data=str(example), out=str(tmp_path / "out"), seed=3, **settings))
    assert same(finished.result, inline(example, **settings))
    assert list(finished.result.schema.rows) == ["pooled"]
    assert sorted(path.name for path in example.glob("*.csv")) == [
        "silo-1.csv",
        "silo-2.csv",
        "silo-3.csv",
        "truth.csv",
    ]


def test_masked_runs_send_the_same_bytes_with_either_engine(server, example, tmp_path):
    settings = LearnSettings(data=str(example), out=str(tmp_path / "a"), secure=True, **SETTINGS)
    alone = learn_inline(settings.named(), read_folder(example))
    assert same(learn(settings.model_copy(update={"out": str(tmp_path / "b")})).result, alone.result)


def test_a_run_cancelled_in_prefect_ends_with_what_it_has_learned_and_can_be_resumed(server, example, tmp_path):
    from prefect.client.orchestration import get_client
    from prefect.runtime import flow_run
    from prefect.states import Cancelling

    begun = []

    def cancel_after_round_2(progress):
        if progress.round.number == 2:
            begun.append(time.monotonic())
            with get_client(sync_client=True) as client:
                client.set_flow_run_state(UUID(flow_run.id), Cancelling())
        if progress.round.number > 2:
            time.sleep(1)

    rounds = 1000
    endless = SETTINGS | {"params": {"rounds": rounds, "tolerance": 1e-15}}
    settings = LearnSettings(data=str(example), name="stopped", out=str(tmp_path / "out"), **endless)
    context = RunContext((cancel_after_round_2,))
    with pytest.raises(Exception, match=r"after .* rounds; what was learned is in"):
        learn_flow(context)(settings)
    assert time.monotonic() - begun[0] < 10
    with get_client(sync_client=True) as client:
        assert flow_run_of(client, "stopped").state.is_cancelled()
    finished = context.outcome.finished
    assert finished.result.outcome == "cancelled"
    assert 2 <= len(finished.result.rounds) < rounds
    assert "was cancelled" in (finished.folder / "report.html").read_text()
    assert resume_settings(finished.folder).algorithm == "notears-admm"
