"""The tasks of the flow `prepare`: make a data set, write it as a folder."""

from prefect import task
from prefect.cache_policies import NO_CACHE

from fedbnsl.data.federated import FederatedData

from .steps import Step


@task(name="make_data", task_run_name="make_data {kind}", cache_policy=NO_CACHE, persist_result=False)
def make_data(kind: str, step: Step[FederatedData]) -> None:
    """Draw, read or split the rows of every silo."""
    step.run()


@task(name="write_data", task_run_name="write_data {folder}", cache_policy=NO_CACHE, persist_result=False)
def write_data(folder: str, step: Step[None]) -> None:
    """Write the folder, whole or not at all."""
    step.run()
