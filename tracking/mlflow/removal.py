"""Removal of a run from MLflow, with its artifacts, its model and the runs of its candidates.

MLflow only marks a deleted run. In a database on this machine, `remove_run` also frees the space. It uses two methods
that MLflow does not document, because MLflow's command `gc` would also remove deleted experiments and models of others.
On a tracking server, the server's owner runs `mlflow gc`.
"""

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from .store import database_of, open_client

if TYPE_CHECKING:
    from mlflow import MlflowClient


class StillUsed(Exception):  # noqa: N818 - no error: the run is kept on purpose
    """A run stays in MLflow, because somebody has given its registered model an alias."""


def remove_run(uri: str, run_id: str) -> None:
    """Remove the run `run_id` from the store at `uri`; a run that is not there counts as removed.

    Versions of registered models that are the run's model are removed, too. Raises `StillUsed` if one of them has an
    alias, `BadInput` if the store cannot be opened, and any error of MLflow.
    """
    from mlflow.entities import ViewType
    from mlflow.exceptions import MlflowException

    client = open_client(uri)
    try:
        run = client.get_run(run_id)
    except MlflowException as error:
        if error.error_code == "RESOURCE_DOES_NOT_EXIST":
            return
        raise
    _remove_registered_versions(client, run_id)
    parent = f"tags.`mlflow.parentRunId` = '{run_id}'"
    # The run itself comes last, so that a removal that fails can be repeated.
    runs = [*client.search_runs([run.info.experiment_id], parent, ViewType.ALL), run]
    models = [model.model_id for one in runs for model in (one.outputs.model_outputs if one.outputs else ())]
    for one in runs:
        if one.info.lifecycle_stage != "deleted":
            client.delete_run(one.info.run_id)
    for model in models:
        with suppress(MlflowException):  # an earlier attempt has deleted it
            client.delete_logged_model(model)
    if database_of(uri) is not None:
        _free(client, [one.info.run_id for one in runs], models)


def _remove_registered_versions(client: "MlflowClient", run_id: str) -> None:
    versions = [
        client.get_model_version(one.name, one.version) for one in client.search_model_versions(f"run_id = '{run_id}'")
    ]
    for one in versions:
        if one.aliases:
            raise StillUsed(f"version {one.version} of the registered model {one.name} is {one.aliases[0]}")
    for one in versions:
        client.delete_model_version(one.name, one.version)


def _free(client: "MlflowClient", runs: list[str], models: list[str]) -> None:
    """Remove deleted runs and models with their files from a database on this machine."""
    from mlflow.exceptions import MlflowException
    from mlflow.store.artifact.artifact_repository_registry import get_artifact_repository

    store: Any = client._tracking_client.store
    for model in models:  # before their run, with which the database forgets them
        with suppress(MlflowException):  # an earlier attempt has removed it
            location = store.get_logged_model(model, allow_deleted=True).artifact_location
            get_artifact_repository(location).delete_artifacts()
            store._hard_delete_logged_model(model)
    for run in runs:
        get_artifact_repository(store.get_run(run).info.artifact_uri).delete_artifacts()
        store._hard_delete_run(run)
