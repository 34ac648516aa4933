"""The flow `prepare`: make a federated data set and write it as a folder."""

from pathlib import Path
from typing import Any
from uuid import UUID

from prefect import flow
from prefect.artifacts import create_table_artifact
from prefect.runtime import flow_run

from fedbnsl.data.folder.folder import write_folder
from fedbnsl.tasks.rounds import Orchestration
from fedbnsl.tasks.task_runs import record_task_runs

from .options.prepare import AnyRecipe


def flow_run_name() -> str:
    """The name of the flow run: kind of data, seed and folder."""
    given = flow_run.parameters["data"]
    options: dict[str, Any] = given if isinstance(given, dict) else given.model_dump()
    return f"prepare-{options.get('kind')}-seed{options.get('seed', 0)}-{Path(flow_run.parameters['out']).name}"


@flow(
    name="prepare",
    flow_run_name=flow_run_name,
    persist_result=False,
)
def prepare(data: AnyRecipe, out: str) -> str:
    """Make a federated data set: a folder with one file per silo, and the true graph if it is known.

    Args:
        data: kind of data set and its options.
        out: folder to write; it must be new or empty.
    """
    with record_task_runs(UUID(str(flow_run.id))) as record:
        perform = Orchestration(record).perform
        made = perform("make_data", str(data.kind), data.build)
        perform("write_data", out, lambda: write_folder(Path(out), made, data.file_form))
    create_table_artifact(
        key="silos",
        table=[{"silo": silo, "rows": made.schema.rows[silo]} for silo in made.schema.silos],
        description=f"{len(made.schema.variables)} variables in {out}",
    )
    return out
