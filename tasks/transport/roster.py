"""The silos of a run: who takes part, who has been given up, and how all of them are asked at once."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from fedbnsl.algorithms.core.counted import counted
from fedbnsl.algorithms.core.protocol import SiloLost

from ..silo.method_call import MethodCall
from ..steps import Start, Wait, in_threads
from .silo_transport import SiloTransport
from .waiting import Patience, answer_of


@dataclass
class Roster:
    """The `silos` of a run, reached over `transport`; `gone` are those given up, with the reason."""

    transport: SiloTransport
    silos: tuple[str, ...]
    patience: Patience
    gone: dict[str, str] = field(default_factory=dict)
    quorum: int = 1
    """the least number of silos with which a run goes on"""
    start: Start = in_threads
    """how calls are started where their caller does not say"""

    @property
    def present(self) -> tuple[str, ...]:
        """The silos that have not been given up."""
        return tuple(silo for silo in self.silos if silo not in self.gone)

    def require_all(self) -> None:
        """Raise `SiloLost` if a silo has been given up."""
        if self.gone:
            raise SiloLost(tuple(self.gone), next(iter(self.gone.values())))

    def ask(self, calls: Mapping[str, MethodCall], *, bears_loss: bool, start: Start | None = None) -> dict[str, Any]:
        """Send each silo its call, all at once, and return the answers by silo.

        A silo that stays silent is given up for the rest of the run, or raises `SiloLost`, unless `bears_loss` and a
        quorum is left.
        """
        works = {silo: partial(answer_of, self.transport, silo, call, self.patience) for silo, call in calls.items()}
        answers, lost = _wait_for_all((start or self.start)(works))
        if lost and not bears_loss:
            raise SiloLost(tuple(lost), next(iter(lost.values())))
        self.gone.update(lost)
        if lost and len(self.present) < self.quorum:
            left = f"{counted(len(self.present), 'silo')} left, and the quorum is {self.quorum}"
            raise SiloLost(tuple(self.gone), f"{next(iter(lost.values()))}; {left}")
        return answers


def _wait_for_all(waits: Mapping[str, Wait]) -> tuple[dict[str, Any], dict[str, str]]:
    """Wait for every silo; return the answers, and who is lost, with the reason, or raise the first other error."""
    answers: dict[str, Any] = {}
    lost: dict[str, str] = {}
    errors: list[Exception] = []
    for silo, wait in waits.items():
        try:
            answers[silo] = wait()
        except SiloLost as loss:
            lost[silo] = loss.reason
        except Exception as error:  # raised below, once every silo has answered
            errors.append(error)
    if errors:
        raise errors[0]
    return answers, lost
