"""The tasks of a round, as Prefect shows them: local_solve (one a silo), aggregate, dual_update, check_convergence.

Each task is handed a `Step`, whose arguments and result Prefect does not see. Prefect would otherwise walk through
every array, and keep every result of every round alive. Measured: about 5 ms of CPU a task run.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from prefect import task
from prefect.cache_policies import NO_CACHE
from prefect.futures import PrefectFuture

from fedbnsl.algorithms.core.protocol import FederatedAlgorithm, Replies, SiloLost
from fedbnsl.algorithms.errors import BadInput
from fedbnsl.algorithms.secure.session import Aborted
from fedbnsl.tracking.notice import first_line, notice

from .steps import Start, Step, Waits, in_threads

T = TypeVar("T")

Submit = Callable[[Step[Any]], PrefectFuture[Any]]
"""what submits a step to Prefect as a task"""


def worth_retrying(task: Any, task_run: Any, state: Any) -> bool:
    """Return whether a failed solve may succeed if repeated: not if the input is bad or the silo is gone."""
    return not isinstance(getattr(state, "data", None), BadInput | SiloLost | Aborted)


# A retry is safe: the silo answers a repeated round from its journal, so no noise is drawn and no budget spent anew.
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
    """Decide whether the run is finished."""
    step.run()


@task(name="evaluate", task_run_name="evaluate", cache_policy=NO_CACHE, persist_result=False)
def evaluate(step: Step[Any]) -> None:
    """Score the learned structure against the truth."""
    step.run()


class Orchestration:
    """The steps of one run as tasks of the current flow, for as long as Prefect answers; then as plain calls.

    Prefect watches a run and is no part of it. When its server cannot be reached any more, that is said once, a step
    that Prefect has not run is run without it, and so are all that follow.
    """

    def __init__(self, give_up: Callable[[], None] = lambda: None) -> None:
        """Begin with a Prefect that answers; `give_up` is called once it does not."""
        self.answering = True
        self._give_up = give_up

    def lost(self, error: BaseException) -> None:
        """Do without Prefect from now on, and say so the first time."""
        if self.answering:
            self.answering = False
            notice(f"Prefect does not answer any more ({first_line(error)}); the run goes on without it")
            self._give_up()

    def tell(self, told: Callable[[], None]) -> None:
        """Call `told`, which tells Prefect something that no step waits for, while Prefect answers."""
        if self.answering:
            try:
                told()
            except Exception as error:
                self.lost(error)

    def solves(self, number: int) -> Start:
        """Return what starts the solves of round `number`: one `local_solve` task for each silo, or one thread."""

        def start(steps: Mapping[str, Step[Any]]) -> Waits:
            if not self.answering:
                return in_threads(steps)
            submits = {silo: partial(local_solve.submit, silo, number) for silo in steps}
            return {silo: self._submitted(submits[silo], step) for silo, step in steps.items()}

        return start

    def perform(self, submit: Submit, work: Callable[[], T]) -> T:
        """Run `work` as the task that `submit` submits, wait for it and return its result (or raise what it raised)."""
        step = Step(work)
        if self.answering:
            self._submitted(submit, step)()
        else:
            step.run()
        return step.result

    def wrap(
        self, algorithm: FederatedAlgorithm[Any, Any, Any, Any], number: Callable[[], int]
    ) -> FederatedAlgorithm[Any, Any, Any, Any]:
        """Return `algorithm` with the coordinator's steps run as tasks of the current flow; `number` gives the round.

        `protocol.rounds` runs the result like any other algorithm, so Prefect needs no loop of its own.
        """

        def aggregate_task(server: Any, replies: Replies[Any]) -> Any:
            submit = partial(aggregate.submit, number())
            return self.perform(submit, lambda: algorithm.aggregate(server, replies))

        def dual_update_task(server: Any) -> Any:
            return self.perform(partial(dual_update.submit, number()), lambda: algorithm.dual_update(server))

        def check_convergence_task(server: Any) -> bool:
            return self.perform(partial(check_convergence.submit, number()), lambda: algorithm.converged(server))

        return replace(
            algorithm, aggregate=aggregate_task, dual_update=dual_update_task, converged=check_convergence_task
        )

    def _submitted(self, submit: Submit, step: Step[Any]) -> Callable[[], None]:
        """Submit `step` and return what waits for it; where Prefect fails, what has not been run is run without it."""
        try:
            future = submit(step)
        except Exception as error:
            self.lost(error)
            return step.run

        def wait() -> None:
            try:
                future.result()
            except Exception as error:
                if step.error is not None:
                    raise
                self.lost(error)
                if not step.done:
                    step.run()

        return wait
