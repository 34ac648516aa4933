"""The flow `prepare`: make a federated data set and write it as a folder."""

from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prefect import Flow, flow
from prefect.artifacts import create_table_artifact
from prefect.runtime import flow_run

from fedbnsl.data.folder.folder import write_folder
from fedbnsl.tasks.prefect_tasks import prefect_steps

from .engines.run_context import Outcome
from .options.prepare import AnyRecipe

if TYPE_CHECKING:
    from fedbnsl.data.federated import FederatedData


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
    _make_and_show(data, out)
    return out


def prepare_flow(outcome: Outcome["FederatedData"]) -> Flow[..., str]:
    """The flow `prepare` in this process, whose data set is its `outcome`."""

    @wraps(prepare.fn)
    def prepare_in_process(data: AnyRecipe, out: str) -> str:
        outcome.record(lambda: _make_and_show(data, out))
        return out

    return Flow(prepare_in_process, name=prepare.name, flow_run_name=flow_run_name, persist_result=False)


def _make_and_show(data: AnyRecipe, out: str) -> "FederatedData":
    with prefect_steps() as steps:
        drawn = steps.perform("make_data", str(data.kind), data.build)
        steps.perform("write_data", out, lambda: write_folder(Path(out), drawn, data.file_form))
        silos = [{"silo": silo, "rows": drawn.schema.rows[silo]} for silo in drawn.schema.silos]
        description = f"{len(drawn.schema.variables)} variables in {out}"
        steps.report(lambda: create_table_artifact(key="silos", table=silos, description=description))
        return drawn
