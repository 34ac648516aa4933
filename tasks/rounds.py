"""The tasks of a round, as Prefect shows them: local_solve (one a silo), aggregate, dual_update, check_convergence.

Each task is handed a `Step`: work whose arguments and result Prefect does not see. It would otherwise walk through
every array, and keep every result of every round alive. Measured: about 5 ms of CPU a task run.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Generic, TypeVar

from prefect import task
from prefect.cache_policies import NO_CACHE
from prefect.futures import PrefectFuture

from fedbnsl.algorithms.core.protocol import FederatedAlgorithm, Replies, SiloLost
from fedbnsl.algorithms.errors import BadInput
from fedbnsl.algorithms.secure.session import Aborted

T = TypeVar("T")


class Step(Generic[T]):
    """A piece of work that a task runs and whose result the caller takes from here, past Prefect."""

    def __init__(self, work: Callable[[], T]) -> None:
        """Hold `work` until a task runs it."""
        self._work = work
        self._result: list[T] = []

    def run(self) -> None:
        """Do the work; a second time (a retry) it replaces the first result."""
        self._result = [self._work()]

    @property
    def result(self) -> T:
        """What the work returned."""
        return self._result[0]


def worth_retrying(task: Any, task_run: Any, state: Any) -> bool:
    """Say whether a failed solve may succeed if repeated: not when the input is bad or the silo is gone."""
    return not isinstance(getattr(state, "data", None), BadInput | SiloLost | Aborted)


# A repeated solve is answered from the silo's journal, so a retry neither draws noise anew nor spends budget.
@task(
    name="local_solve",
    task_run_name="local_solve {silo} round {number}",
    cache_policy=NO_CACHE,
    persist_result=False,
    retries=2,
    retry_delay_seconds=1,
    retry_condition_fn=worth_retrying,
)
def local_solve(silo: str, number: int, step: Step[Any]) -> None:
    """Have one silo solve its local problem on the worker that holds its rows."""
    step.run()


@task(name="aggregate", task_run_name="aggregate round {number}", cache_policy=NO_CACHE, persist_result=False)
def aggregate(number: int, step: Step[Any]) -> None:
    """Combine the replies of the silos into the next server state."""
    step.run()


@task(name="dual_update", task_run_name="dual_update round {number}", cache_policy=NO_CACHE, persist_result=False)
def dual_update(number: int, step: Step[Any]) -> None:
    """Update the multipliers of the constraints."""
    step.run()


@task(
    name="check_convergence",
    task_run_name="check_convergence round {number}",
    cache_policy=NO_CACHE,
    persist_result=False,
)
def check_convergence(number: int, step: Step[Any]) -> None:
    """Say whether the run is finished."""
    step.run()


@task(name="evaluate", task_run_name="evaluate", cache_policy=NO_CACHE, persist_result=False)
def evaluate(step: Step[Any]) -> None:
    """Score the learned structure against the truth."""
    step.run()


def perform(submit: Callable[[Step[T]], PrefectFuture[Any]], work: Callable[[], T]) -> T:
    """Run `work` as the task that `submit` submits, wait for it and return its result (or raise what it raised)."""
    step = Step(work)
    submit(step).result()
    return step.result


def as_tasks(
    algorithm: FederatedAlgorithm[Any, Any, Any, Any], number: Callable[[], int]
) -> FederatedAlgorithm[Any, Any, Any, Any]:
    """Return `algorithm` with the coordinator's steps run as tasks of the current flow; `number` gives the round.

    `protocol.rounds` runs the result like any other algorithm: the loop stays the one of the project.
    """

    def aggregate_task(server: Any, replies: Replies[Any]) -> Any:
        return perform(lambda step: aggregate.submit(number(), step), lambda: algorithm.aggregate(server, replies))

    def dual_update_task(server: Any) -> Any:
        return perform(lambda step: dual_update.submit(number(), step), lambda: algorithm.dual_update(server))

    def check_convergence_task(server: Any) -> bool:
        return perform(lambda step: check_convergence.submit(number(), step), lambda: algorithm.converged(server))

    return replace(algorithm, aggregate=aggregate_task, dual_update=dual_update_task, converged=check_convergence_task)
