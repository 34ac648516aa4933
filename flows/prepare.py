"""The flow `prepare`: make a federated data set and write it as a folder."""

from pathlib import Path
from typing import Any

from prefect import flow
from prefect.artifacts import create_table_artifact
from prefect.runtime import flow_run
from prefect.task_runners import ThreadPoolTaskRunner

from fedbnsl.data.folder.folder import write_folder
from fedbnsl.flows.make import form_of, make
from fedbnsl.flows.options.prepare import AnyRecipe
from fedbnsl.tasks.prepare import make_data, write_data
from fedbnsl.tasks.rounds import Orchestration


def flow_run_name() -> str:
    """Return the name of the flow run: kind of data, seed and folder."""
    given = flow_run.parameters["data"]
    options: dict[str, Any] = given if isinstance(given, dict) else given.model_dump()
    return f"prepare-{options.get('kind')}-seed{options.get('seed', 0)}-{Path(flow_run.parameters['out']).name}"


@flow(
    name="prepare",
    flow_run_name=flow_run_name,
    task_runner=ThreadPoolTaskRunner(max_workers=4),  # type: ignore[arg-type]
    persist_result=False,
)
def prepare(data: AnyRecipe, out: str) -> str:
    """Make a federated data set: a folder with one file a silo, and the truth where it is known.

    Args:
        data: kind of data set and its options.
        out: folder to write; it must not exist, or be empty.
    """
    perform = Orchestration().perform
    made = perform(lambda step: make_data.submit(data.kind, step), lambda: make(data))
    perform(lambda step: write_data.submit(out, step), lambda: write_folder(Path(out), made, form_of(data)))
    create_table_artifact(
        key="silos",
        table=[{"silo": silo, "rows": made.schema.rows[silo]} for silo in made.schema.silos],
        description=f"{len(made.schema.variables)} variables in {out}",
    )
    return out
