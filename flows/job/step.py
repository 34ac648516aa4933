"""A further exchange, or several, over the silos of a run: before its rounds, or after them."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from fedbnsl.algorithms import registry
from fedbnsl.algorithms.core.protocol import Round, Traffic, rounds
from fedbnsl.algorithms.core.spec import AlgorithmSpec

from .job import Job
from .session import Session


@dataclass(frozen=True)
class Stepped:
    """The last round of a step, and what all its rounds sent."""

    last: Round[Any]
    traffic: Traffic

    @property
    def lost(self) -> bool:
        """Whether too few silos answered for the step to end."""
        return self.last.outcome == "silo lost"

    @property
    def bytes_sent(self) -> int:
        """Bytes in both directions."""
        return self.traffic.up + self.traffic.down


def step(
    job: Job,
    session: Session,
    spec: AlgorithmSpec,
    name: str,
    start: Any = None,
    tell: Callable[[Round[Any]], None] = lambda finished: None,
) -> Stepped:
    """Run `spec` over the silos of `job` under the run id `<run id>-<name>`, from the server's state `start` if given.

    It is masked if the run is, or if `spec` needs it. `tell` hears every round.
    """
    federation = session.connect(job, spec, f"{job.run_id}-{name}")
    algorithm, traffic = session.wrap(registry.build(spec), federation), Traffic()
    for last in rounds(algorithm, federation, None if start is None else (0, start)):
        traffic += last.traffic
        tell(last)
    return Stepped(last, traffic)
