"""A removed run takes its candidates, its model and their files with it, and nothing else."""

from dataclasses import replace

import pytest
from mlflow import MlflowClient
from mlflow.entities import ViewType
from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore

from fedbnsl.tracking.mlflow.removal import remove_run
from fedbnsl.tracking.mlflow.run import RunStart, ending_of, open_run
from fedbnsl.tracking.mlflow.saved_model import TrackedData
from fedbnsl.tracking.outputs import write_outputs
from fedbnsl.tracking.result import TunedCandidate, Tuning

CANDIDATES = tuple(TunedCandidate({"alpha": alpha}, 3.0, 0.02, -4.5) for alpha in ("0.01", "0.1"))


@pytest.fixture
def log(chain, uri, tmp_path):
    """The log of a finished run with two candidates."""
    tuned = replace(chain, tuning=Tuning("held-out", CANDIDATES, 0, 4, 1000))
    log = open_run(RunStart("tuned", {}, {}, TrackedData(tuned.dataset, tuned.about, tuned.schema), uri))
    write_outputs(tuned, tmp_path / "run")
    log.finish(ending_of(tuned), tmp_path / "run")
    return log


def runs_in(client, experiment):
    return {one.info.run_id for one in client.search_runs([experiment], run_view_type=ViewType.ALL)}


def files_of(store, log):
    """The files of the run and of its model."""
    return [one for one in store.rglob("*") if one.is_file() and log.run_id in str(one)] + [
        one for one in store.rglob("MLmodel") if log.run_id in one.read_text()
    ]


def test_a_removed_run_leaves_nothing_and_takes_nothing_else(log, uri, store):
    client = MlflowClient(uri)
    binned = client.create_experiment("somebody else's")
    client.delete_run(client.create_run(binned).info.run_id)
    client.delete_experiment(binned)
    before, others = runs_in(client, log.experiment_id), runs_in(client, binned)
    assert len(files_of(store, log)) > 8
    remove_run(uri, log.run_id)
    assert files_of(store, log) == []
    assert len(before - runs_in(client, log.experiment_id)) == 3
    assert runs_in(client, binned) == others
    assert client.get_experiment(binned).lifecycle_stage == "deleted"
    remove_run(uri, log.run_id)


@pytest.mark.parametrize("step", ["_hard_delete_logged_model", "_hard_delete_run"])
def test_a_removal_that_fails_half_way_is_repeated(log, uri, store, monkeypatch, step):
    client = MlflowClient(uri)
    before = runs_in(client, log.experiment_id)
    with monkeypatch.context() as patch:
        done, complete = [], getattr(SqlAlchemyStore, step)

        def failing(self, one):
            complete(self, one)
            done.append(one)
            raise OSError("the disk went away")

        patch.setattr(SqlAlchemyStore, step, failing)
        with pytest.raises(OSError, match="the disk"):
            remove_run(uri, log.run_id)
        assert len(done) == 1
    remove_run(uri, log.run_id)
    assert files_of(store, log) == []
    assert len(before - runs_in(client, log.experiment_id)) == 3
